// Package link keeps streams of one term to the workers of hosts open: it dials, greets,
// reads and writes, and tells the scheduler's loop what comes. One link is the stream to
// a host's own worker (stream.Proto), another that to the outside workers which the
// host lets in (stream.CrewProto).
//
// Non-goals: what frames mean.
//
// Goroutines. Link.Run is one, and ends with its context; of each open stream it owns
// one writer, which ends with the stream.
//
// Channels. Options.Events belongs to the caller: when it is full links wait, which
// their workers see as a slow reader, and telemetry is dropped and counted. Frames that
// wait to be written: when there are as many as a session may have, its stream is
// closed, counted, and opened again.
package link
