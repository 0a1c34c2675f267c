// Package results compares results of chunks: whether two hosts computed the
// same, whether a result is unlikely beside those of the other chunks, whether a
// metric is known well enough to stop, and how long chunks usually run.
//
// Non-goals: whose results are compared, and what follows, which the plan
// decides; what the job computed in the end, which is the log's to say.
//
// Goroutines: none.
package results
