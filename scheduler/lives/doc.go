// Package lives says what the log hears of workers: that one is there or was away for
// some time, and which chunks began.
//
// Non-goals: who is a worker, and what becomes of what a worker had that is away.
//
// Goroutines: none.
package lives
