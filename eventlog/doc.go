// Package eventlog is the durable, replicated log of a host: its own hash
// chain of events, verified copies of the other hosts' chains, and the state
// that follows from all of them.
//
//	log, err := eventlog.Open(options)   // recovers; starts nothing
//	go log.Run(ctx)                      // writes and replicates
//	events, err := log.Append(ctx, drafts)
//	voters, err := log.WaitStable(ctx, events[len(events)-1].Seq)
//	log.View(func(st *state.State) { ... })
//
// This package has the writer, which alone changes what is on the disk, and the
// fold. Package store keeps what is on the disk, package replicate exchanges it
// with other hosts, package snapshots lets the log go on from snapshots, and
// package audit verifies and repairs it.
//
// # Room
//
// At Options.LowWater the state of the disk is disk.Low, a warning. When only
// Options.Reserve is left, or the log is as large as it may be, drafts that are
// not essential (event.Kind.Essential) are refused with ErrDiskFull, and events
// of other hosts are taken until half of the reserve is used. When there is no
// room even for essential drafts the state is disk.Out. None of that leaves a
// trace in the chain, and it ends when there is room again. How much each other
// host may fill is bounded too.
//
// # Promises
//
// What Append returned is on this disk. Readers, the fold and replication see
// only what is durable. Sequence numbers are dense; clocks rise along a chain,
// and an event's clock is above those of all events that were in the log when it
// was written. An append is written whole or not at all. After a failed write or
// sync nothing more is written (ErrPoisoned) until the log was recovered.
//
// # Goroutines
//
// Run starts all of them and waits for them. The writer (ends when the context
// of Run ends and what was admitted is durable, or with a *segment.CorruptError
// after an I/O error) has one that flushes (ends with the writer): while that
// writes and syncs one batch, the writer encodes and hashes the next one, and
// answers the one before. While there are shown events that are not folded, one
// goroutine folds them (ends when there are none); whoever reads the fold folds
// them first, and the writer waits when too many are left. The goroutines of
// disk.Room, snapshots.Keeper and replicate.Replicator end with Run's context.
//
// The intake queue is bounded in bytes; when it is full Append waits for its
// context.
//
// # Non-goals
//
// Deciding who may act (package lease), what events mean (package state).
package eventlog
