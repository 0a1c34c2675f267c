// Package jobs is the fold of the events of all jobs: what each job, its chunks
// and its results are. It is a part of package state, which decides which events
// count before they come here.
//
// A Fold routes an event to its job, keeps what waits for a submission, and
// knows which names were forgotten. A job has its fixed facts and its end
// (job.go), a tally of what happened to attempts (tally.go), and its work: the
// chunks (chunk.go), what follows from them (work.go) and the metrics merged in
// trees (tree.go). The work is gone once the job is sealed.
//
// Order, first wins, ended and forgotten jobs, aggregates: see package state.
//
// Non-goals: how a job changed on the way, which package history tells, and
// what is to be done next, which package plan decides.
//
// Goroutines: none. A Fold belongs to one caller at a time.
package jobs
