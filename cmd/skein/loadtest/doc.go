// Package loadtest has the commands about load tests: run, check, report, compare.
//
// Non-goals: the run itself (load/engine), what is shown of it (load/report).
//
// Goroutines: none of its own.
package loadtest
