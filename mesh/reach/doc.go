// Package reach decides when to start a handshake with a peer and which of its
// endpoints to try. It is pure: the time and the jitter are arguments.
//
// Handshakes: if both ends start one together, both answers are thrown away
// and both wait 5 s, often to collide again. So the lower public key starts, at
// once when the peer is added, and repeats (after 0.3 s, growing to 60 s; the
// device itself repeats every 5 s in between). The other side starts only if it
// heard nothing for 2 s and a random part of another. That also covers a host
// whose clock was set back: its handshakes look like replays to its peers.
//
// Handshakes with peers out of reach are paced: 64 at once, then 20 a second,
// the least tried first. Since it suffices that either side starts, a host has its
// mesh with 100 others in 2 s, and with 500 in a few seconds.
//
// Endpoints: while a peer is out of reach its candidates are tried in turn,
// every 5 s plus up to 1 s, and after the first round as seldom as the attempts
// are. The endpoint that the device last learned from the peer is one of them.
// The endpoint of a live peer is never overwritten.
//
// Non-goals: the device, and who is a peer.
//
// Goroutines: none. A Link belongs to one caller at a time.
package reach
