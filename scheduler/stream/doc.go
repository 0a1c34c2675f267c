// Package stream is the language between the scheduler on the lease holder
// and the worker on every host: length-prefixed frames on one authenticated
// connection that the holder opens. It is pure: it encodes, decodes and
// validates, and knows no socket.
//
// Frames are JSON. Those that come once per chunk (Assign of a job that this
// stream has seen, Accepted, Result with numbers alone) have a short binary
// form that says the same.
//
// The holder opens with Hello and sends Assign, Cancel, Accepted, Query and
// Ping. The worker answers Hello with Welcome or Refused, a Query with Assigned,
// a Cancel with Stopped, and sends Result, Status and Pong. Each holder frame
// carries the holder's term; a worker keeps the highest term that it has seen and
// refuses a lower one. A worker keeps a result until Accepted names it.
//
// A host that lets outside workers in says so in its Welcome, and the holder opens a
// second stream to it, CrewProto. All frames but those about the stream itself name the
// worker that they are about: the host tells with Join and Part who is there, the holder
// with Drop whom it does not want. A Status that names nobody is the host's own, every
// 2 s. A frame that cannot be read ends a stream; what a worker does wrong never does.
package stream
