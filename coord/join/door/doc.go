// Package door is how joins come in: the join port and the bounds of its connections, the
// Keeper that passes a join on from an onion address that every host serves to
// the sponsor that made the invite, and the listener at the sponsor that takes
// what was passed on.
//
// What passes is TLS that only the sponsor can answer. Every failure at a Keeper
// is the same 404 after the same time.
//
// Non-goals: the exchange itself (package join).
//
// Goroutines: two per join that a Keeper passes on, at most 16 such; they end
// after 2 minutes at the latest. Server.Run owns one that closes the servers and one for
// each listener but the first, which end when Run returns, and net/http's, which end before.
package door
