// Package wire is the form in which logs travel between hosts: the messages of
// the replication protocol, runs of a chain, acknowledgements, and proofs that
// a source signed two histories. It does no I/O but on the readers and writers
// that it is given, and starts no goroutines.
//
// Non-goals: who asks whom, and what is done with an answer; those belong to
// packages replicate and snapshots.
package wire
