// Package pathmtu finds paths of the mesh that carry small packets and drop
// full-size ones. A Prober has a heartbeat padded to the mesh's MTU sent to each host
// that is heard, when it is first heard, when its endpoint changed, and again and
// again: about one such datagram per second and host in all, to each peer at least
// every 10 minutes and at most every 45 s, so that a hole that opens is found
// within a minute. What arrived is echoed in the heartbeats of the next seconds.
//
// Non-goals: how a packet travels, what follows from a smaller MTU.
//
// Goroutines: none. A Prober and its Paths belong to one owner.
package pathmtu
