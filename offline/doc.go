// Package offline is what commands do on a state directory without a daemon:
// found a cluster, join one, move the root key, repair, verify, export and replay
// the event log, make a host the only voter, and run a job on this machine alone.
//
// What changes a state directory takes its lock first and so refuses to work under
// a running daemon; what reads the event log does not and may run beside one.
// Errors carry a hint on what to do next where an operator can do something.
//
// It talks to no daemon and keeps nothing open after a call. A daemon has it write
// what it exports of its own log (RecentEvents); whoever gets an export has it
// checked here (CheckExport).
//
// Goroutines: RunLocal starts a scheduler and a worker, Join over Tor starts tor;
// all have ended when the call returns.
package offline
