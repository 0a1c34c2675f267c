// Package gossip spreads membership records: it owns the table of them, merges
// what anybody brings, pulls what is missing and passes on what is new.
//
// A heartbeat carries a digest of its sender's records, and a host whose digest
// differs fetches what it lacks over a stream. A revocation goes to all members
// at once, before all else that waits to be sent, and whoever learns of it passes
// it on. Signatures alone decide; who brought a record does not matter.
//
// Non-goals: what records certify (package member), who is alive, when a host
// introduces itself.
//
// Records has one owner, which calls its methods from one goroutine but for Run.
// Goroutines: Run saves records, and ends with its context; one per pull, at most
// 4, started through Options.Go, each ends within its timeout.
package gossip
