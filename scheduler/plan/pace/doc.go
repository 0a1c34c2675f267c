// Package pace measures how long work takes: how fast each worker is at each
// kind of work, and which workers only fail at it.
//
// Non-goals: who gets the work.
//
// Goroutines: none.
package pace
