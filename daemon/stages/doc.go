// Package stages starts the parts of a daemon one after the other, and stops them in
// reverse, each within its time.
//
// Non-goals: which parts there are, and in which order, which package daemon says.
//
// Goroutines: one per stage, from Start until its Run returns; Stop ends its context and
// waits for it, at most for the stage's grace.
package stages
