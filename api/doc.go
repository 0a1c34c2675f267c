// Package api holds the versioned types that skein speaks on its socket, and a
// client for them. It is the contract with scripts: fields are only ever
// added, lists are never null, durations are *_seconds and sizes *_bytes
// numbers, enumerations are lower case, times are RFC 3339 in UTC, and null
// means unknown, never zero.
//
// Every body embeds Header: the version, the host that answers, when it
// looked, and how much of the log it had read. What is known of other hosts
// carries its own age.
//
// Non-goals: it decides nothing, and it holds no connection between calls.
//
// Goroutines: none of its own. Follow calls block their caller and end when
// the context ends, the callback returns an error, or the job is final.
//
// Ordering: events of one source arrive in the order of their sequence
// numbers, also across reconnections; events of different sources are in the
// order of their clocks when they were all known, in order of arrival
// otherwise. Snapshots of a job never go back to an older position on one
// connection.
package api
