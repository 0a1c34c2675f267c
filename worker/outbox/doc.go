// Package outbox keeps results of attempts until their fate is stable, in memory
// and in a journal. The journal is written before a result is sent and is not
// synced: it outlives the process, whatever ends it. What a power failure takes
// is computed again.
//
// A result is dropped only by Drop, or by Relieve when the outbox is over its
// limit and the result was kept for long enough.
//
// Non-goals: who gets a result, and when.
//
// Goroutines: none. An Outbox has one user.
package outbox
