// Package jobs has the commands about jobs and those who run and own them: job,
// worker, workers, groups. A job is submitted from flags or a job file; one that
// is followed shows its progress on stderr and its result on stdout.
//
// Non-goals: deciding anything about a job, which the daemon does.
//
// Goroutines: none.
package jobs
