// Package logbench compares the event log with raft and with stores: takeover of
// the lease, appends, spreading, verification and catching up.
//
// Goroutines: writers, which end with the round that started them.
package logbench
