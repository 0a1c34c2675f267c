// Package stops knows of hosts that have stopped though this host did not hear them
// say so: it was down then, or the message was lost. The holder, which did hear it,
// wrote it in the log.
//
// Non-goals: judging hosts that are heard, and anything that work or the lease depends
// on: what this package knows is for people.
//
// Goroutines: none of its own. Run looks into the log every five seconds, if some host
// is missing, and ends with its context; View may be called by anybody.
package stops
