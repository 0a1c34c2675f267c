// Package ownlog remembers what this host's event log was in the last seconds: a host
// that has what this one had a moment ago has caught up.
//
// Non-goals: the log itself.
//
// Goroutines: none.
package ownlog
