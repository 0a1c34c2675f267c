// Package store is what is on this host's disk: its own hash chain of events,
// and copies of the other hosts' chains, in segments. A commit group is written
// at once, ends with the chain's signed head and is synced before the next one
// is written. Recovery cuts off the last group of a chain if it is incomplete;
// any other damage is a *segment.CorruptError and changes nothing. The last
// group of a chain that rots looks like a torn write, so the heads are kept in
// watermark files as well.
//
// A Store is read from any goroutine, and shows what is durable. A Writer alone
// changes it; it belongs to one goroutine, except that Flush may run in another
// one while the next batch is staged.
//
// # Non-goals
//
// When to write and whom to answer, and what events mean: package eventlog.
// What other hosts have: package replicate.
package store
