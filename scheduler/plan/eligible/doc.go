// Package eligible keeps which workers may run which jobs: exact sets, one for
// each distinct need of jobs, and those of the workers with room, by when they
// are done. Explain says what keeps each worker from a job, which a job that waits
// tells; by Foresee a submission is refused.
//
// Non-goals: whether a worker is well and has room, which the caller says.
//
// Goroutines: none.
package eligible
