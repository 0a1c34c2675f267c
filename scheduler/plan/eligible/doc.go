// Package eligible keeps which workers may run which jobs: exact sets, one for
// each distinct need of jobs, and those of the workers with room, by when they
// are done.
//
// Non-goals: whether a worker is well and has room, which the caller says.
//
// Goroutines: none.
package eligible
