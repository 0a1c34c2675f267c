// Package eligible keeps which workers may run which jobs: exact sets, one for
// each distinct need of jobs, and those of the workers with room, by when they
// are done. Classes.Explain says what keeps each worker from a job: a submission
// is refused by it, and a job that waits says it.
//
// Non-goals: whether a worker is well and has room, which the caller says.
//
// Goroutines: none.
package eligible
