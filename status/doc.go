// Package status serves the types of package api over HTTP on the local unix
// socket, and a read-only part of them on an optional TCP listener. It knows
// the daemon only as a Backend.
//
// Who may do what: whoever can open the socket may read; root, the user that
// runs the daemon and the members of the administrators' group may change.
// The peer's credentials come from the kernel. Over TCP nobody changes
// anything, and requests for another host name are refused. Users prove each request, at
// listeners of theirs or at a gateway, which hands on what ForUsers serves.
//
// Bounds: every body has a limit, every request a deadline, bodies are strict
// JSON without unknown fields. Readers that do not keep up are cut, they never
// slow the daemon; their number is limited.
//
// Non-goals: it decides nothing about jobs or the lease, and keeps no history.
//
// Goroutines: one per listener and those of net/http, all ended by the end of
// Run's context, followers at once, other requests after a grace.
//
// Ordering: a follower sees each source's events in order. A watcher of a job
// sees snapshots, not each change; the final one always comes.
package status
