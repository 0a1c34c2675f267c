// Package ends has what ends a job before its chunks are done, its time and what went
// wrong with it, and what ends an attempt without a result.
//
// Non-goals: what becomes of them, which the plan decides.
//
// Goroutines: none.
package ends
