// Package worker runs chunks on a host. It serves the worker side of the
// scheduler's stream (package scheduler/stream), keeps a bounded queue and a
// number of slots, hands each attempt to an Executor (package worker/executor)
// and keeps every result (package worker/outbox) until the holder says that its
// fate is stable.
//
// It decides nothing about jobs: what runs where, how often and what counts is
// the scheduler's. It reads no log.
//
// # Terms
//
// A holder opens a stream with its term. The worker keeps the highest term it
// has served and refuses a lower one, and the same term from another host. A
// stream of a higher term replaces the one before it. The term is kept in
// memory; Options.MinTerm supplies what the lease knows beyond that.
//
// A lost holder stops nothing here at first: queued and running chunks go on
// and their results are kept for the next holder, who learns of both from the
// Welcome. When no holder was heard for Options.FenceAfter, the work counts as
// lost elsewhere and stops here too.
//
// Of each job the worker keeps the highest (term, order) that it obeyed: the
// same dispatch again gets the same answer, an earlier one is refused, also
// after the work is done. A Cancel is confirmed when the last process has ended.
//
// # Drain and stop
//
// A drain lets what runs go on, gives back what is queued, and takes nothing new,
// over restarts too, until it is undone. At the end of Run's context the same
// happens, and what still runs after Options.DrainTimeout is given back as well.
// What is given back (job.HandedBack) is no failed attempt.
//
// # Goroutines
//
// Worker.Run owns the queue, the slots and the outbox; it ends when its
// context ends and the drain is over. It owns one goroutine per executor
// (ends when the drain is over) and one per running attempt (ends when the
// attempt does). Each Serve owns one writer (ends when Serve returns).
//
// # Ordering
//
// On one stream Welcome comes first, then the kept results, oldest first.
// Chunks start in the order in which they were assigned. A result may be sent
// more than once, on different streams. While the outbox is full no new chunk
// starts.
package worker
