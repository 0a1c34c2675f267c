// Package meters measures what operators want to know of a scheduler: how long
// work waits and for what, and how long workers will be busy.
//
// Non-goals: what the scheduler counts of its own doing.
//
// Goroutines: none.
package meters
