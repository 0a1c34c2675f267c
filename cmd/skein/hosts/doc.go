// Package hosts has the commands about the cluster and its hosts, which ask a
// daemon's socket: status, members, lease, mesh, events, wait, token, leave, remove,
// check.
//
// Non-goals: what works without a daemon; that is in package local.
//
// Goroutines: none.
package hosts
