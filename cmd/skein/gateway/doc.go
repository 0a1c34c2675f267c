// Package gateway has the commands about those that are let in from outside: gateway
// worker, gateway token.
//
// Non-goals: the invites of hosts, which are `skein token` in package hosts.
//
// Goroutines: none.
package gateway
