// Package health says which of the other hosts are alive. Up to MaxDirect of them
// are judged by their silence (member.Detector); in a larger cluster package swim
// probes them, and what it decides counts, but for the holder and a voter, which
// always judge each other by silence. Monitor chooses between the two ways, hands
// each what it must know, and reports every change.
//
// Non-goals: what a heartbeat says and to whom it goes, sockets, what follows from
// a host's death.
//
// Goroutines: none. A Monitor belongs to one owner, which calls its methods from
// one goroutine and gets the calls of Options on it.
package health
