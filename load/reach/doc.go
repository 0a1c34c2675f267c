// Package reach has the way to the targets of a load test: the addresses of their names, what the
// guard and the host's list allow of them, room for as many connections as that says, the proof that
// a target is meant, and connections, with TLS or without.
//
// Non-goals: what goes over connections (load/h1, load/h2, load/h3, load/ws), which of them are used
// again, and how many requests a target gets (load/engine).
//
// Goroutines: none; Refresh runs on its caller's.
package reach
