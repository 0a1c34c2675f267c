// Package trial proves at a submit that a module compiles.
//
// Non-goals: running it (worker/executor), and its pace (scheduler/plan/pace).
//
// Goroutines: none; who submits waits.
package trial
