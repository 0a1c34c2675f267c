// Package limits has the times and bounds by which a plan decides.
//
// Non-goals: what follows from them, which the plan decides.
//
// Goroutines: none.
package limits
