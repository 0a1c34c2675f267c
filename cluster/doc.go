// Package cluster is skein's vocabulary: the nouns that every other package
// shares, with their text forms and their validation. It decides nothing and
// performs no I/O.
//
// Words: a host that runs the daemon is named by its NodeID. A member is a
// host with a valid signed record. The lease has one holder per Term. A job is
// split in chunks; an attempt is the n-th try at a chunk. An Event is one log
// record; a source is the chain of one (host, incarnation).
//
// Everything here is a value. Slices and maps inside a value are never
// modified after the value was handed on.
package cluster
