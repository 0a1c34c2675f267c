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
// # On disk
//
// One directory per source, "node.incarnation", of segments named by their
// first sequence number; package record defines their bytes. A commit group
// is written at once, ends with the chain's signed head and is synced before
// the next one starts. Open cuts off the last group of a chain's last segment
// if it is incomplete, since nobody was told that it was durable; any other
// damage is a *CorruptError and Open changes nothing. A group that rots as
// the very last one of a chain looks like a torn write, so the heads are kept
// in watermark files as well, when nothing is written for a second and at the
// end: what is missing below them is damage. In that second the other hosts'
// copies reveal it, see CheckOwnHead.
//
// # Room
//
// Disk tells what room there is. At Options.LowWater it warns. When no more
// than Options.Reserve is left, or the log is as large as it may be, drafts
// that are not essential (cluster.Kind) are refused with ErrDiskFull, and what
// others write is taken until half of the reserve is gone. A part of it is held
// as a file, which goes when even the essential find no room. Where none is
// left at all the state is DiskOut. All of that leaves no trace in the chain
// and ends when there is room again. How much one other host may fill is
// bounded too (ErrQuota).
//
// # Promises
//
// What Append returned is on this disk. Readers, the fold, Heads, Digest and
// replication see only what is durable. Sequence numbers are dense; clocks
// rise along a chain, and an event's clock is above those of all events that
// were in the log when it was written. An append is written whole or not at
// all. After a failed write or sync nothing more is written (ErrPoisoned).
//
// What comes from other hosts is stored only if its chain is dense, its
// hashes match, its clock is not ahead, and its source has signed its head.
// Two signed histories of one source are a Proof, which hosts pass on like
// events: from the first event in which they differ nothing of the source
// counts on any host, whichever of the two it holds, and Digest, Cut and the
// fold say so. If another host holds more of this host's own chain than its disk,
// the log goes on as a new incarnation and never forks its chain; the first
// event of that names the last one here of the old.
//
// An event is stable when WaitStable says so: then it lies inside the Cut of
// every later term that was caught up with CatchUp. That holds because a
// voter reads its promised term after an event is durable, and answers heads
// for a term only after it has promised it.
//
// # Snapshots
//
// The holder takes a snapshot of everything that it holds: it folds the events
// up to there, and asks the voters to sign. A voter signs if it holds the cut,
// has promised no higher term, and folds the same bytes. What a majority has
// signed goes into the log as an event, and every host that has the events of
// the cut makes the snapshot by itself, checks the signatures, and goes on from
// it: the state is from then on that of the snapshot and what lies beyond, on
// every host alike, and an event that would change it from below is refused,
// counted and named by the state. Package snapshot says why none comes.
//
// Two snapshots are kept. Full segments below the older one may be dropped:
// first they are copied to the archive, then the manifest says so, then they
// are removed; Open finishes what the manifest says. Whoever asks for a dropped
// event gets a *CompactedError. A host that lacks events which a peer has
// dropped fetches the peer's snapshot if a majority of the voters, as it knows
// them, has signed or vouches for it, and its chains go on from the cut. Open
// uses the newest snapshot that is sound, and reads of the segments below it
// only header and seal; Verify reads all.
//
// # Goroutines
//
// Run starts all of them and waits for them. The writer (ends when the
// context of Run ends and what was admitted is durable, or with a *CorruptError
// after an I/O error) is, with the one that flushes for it, the only one that
// writes segments. One watcher of the
// disk (ends with Run's context) looks each second. One looks after snapshots (ends
// with Run's context): it folds one state at a time, and rests as long as it works. One pusher per other voter
// (ends when the voter set drops it or Run's context ends) keeps a stream and
// a reader of its answers. One puller (ends with Run's context) asks a random
// peer now and then; on a host that does not vote one follower (ends with Run's
// context) has a voter tell it what is new. Serve runs in the caller's goroutine.
// The writer has one that flushes (ends with the writer): while that writes and
// syncs one batch, the writer encodes and hashes the next one; before it signs
// that it answers the one before, for those who waited may come along; none is
// written before the one before it is durable. While there are shown events that
// are not folded, one goroutine folds them (ends when there are none; Run waits
// for it); whoever wants the fold folds them first, and the writer waits when too
// much is left. An open segment that grows fast has one that writes zeros over
// room that was preallocated (ends when that is done, or the file is cut or
// closed). Open and Verify read long segments with one goroutine per processor
// and one that cuts (end before they return).
//
// The intake queue is bounded in bytes; when it is full Append waits for its
// context. Each stream has at most eight unanswered messages; then its sender
// waits for the other side, with a deadline.
//
// # Non-goals
//
// Deciding who may act (package lease), what events mean (package state).
package eventlog
