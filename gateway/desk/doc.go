// Package desk is the outside workers that are attached to one host: their sessions,
// what each was given and has done, and what waits for the holder and for them. It
// speaks the host's side of stream.CrewProto with the holder, and with workers by
// calls and pushes. It is pure: time comes in, frames and pushes go out.
//
// Whoever computes is here by attaching, until it says bye, is lost, attaches anew, or
// the holder does not want it. A worker that is lost keeps what it has for Linger: it may
// come back. Each Attach makes a session, later ones are higher.
//
// Nothing here counts. What a worker was given and what it sent is told to the holder,
// to every new one again; a result is kept until the holder says that its fate is
// stable, and the worker keeps it as long. Whoever loses this state loses work, and no
// result.
//
// Order. To the holder all of one worker goes in order, its Join first. Pushes to a
// worker are numbered: where one is missing, Assigned tells all of it.
//
// Non-goals: who a worker is and how it is reached, how much it may ask. Goroutines: none.
package desk
