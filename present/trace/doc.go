// Package trace makes a trace of a job from what the log says of it: one span for the
// job, one for its wait for the first worker, one for each attempt at a chunk. The
// identifiers follow from the job, so every host makes the same trace.
//
// Non-goals: measuring. What the log does not have, such as the time that a chunk
// waited in a worker's queue, is not in the trace. Times are those of the events, by the
// clock of the holder that wrote them.
//
// Goroutines: none.
//
//	t := trace.Of(job, history)
//	otlp, err := t.OTLP()
package trace
