// Package series makes of a job's events what charts show of how it went: what was
// done in each of some spans of time of the same length, how exact the results were at
// their ends, whose work it was, and why attempts came to nothing. It is bounded,
// however long the job was.
//
// A result counts from its event on. Where accepted results of a chunk differed, the
// one that settled it counts, from its own event on; a first pass finds those chunks
// (Settled), for a second one to leave their other results out.
//
// Non-goals: reading the log, and which events are void.
//
// Goroutines: none.
//
//	fold := series.New(series.Options{Job: id, Spec: spec, From: from, To: to, Points: 120})
//	fold.Apply(e) // each event of the job, in order
//	answer := fold.Series()
package series
