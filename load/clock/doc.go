// Package clock has what a generator of load needs of time: where its windows end, when it was in
// doubt of itself, timers that wake up when they are to, and how much of the processors it has
// taken.
//
// Non-goals: when what is due (load/pace).
//
// Goroutines: none.
package clock
