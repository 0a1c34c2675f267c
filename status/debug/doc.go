// Package debug answers what an administrator asks to know of a host, for a bundle of
// all of them.
//
// Non-goals: gathering it, which the backend does.
//
// Goroutines: none.
package debug
