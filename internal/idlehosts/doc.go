// Package idlehosts makes up a cluster in which nothing happens: heartbeats come each
// second, the lease is renewed, round trips and traffic are never the same, and
// everything gets older. It answers what a daemon of it would answer, for measuring
// what watchers of it are told.
//
// Non-goals: being a cluster of which something could be shown. It knows no log.
//
// Goroutines: none. Its methods may be called from any.
package idlehosts
