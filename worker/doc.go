// Package worker runs chunks on a host. It serves the worker side of the
// scheduler's stream (package scheduler/stream), keeps a bounded queue and a
// number of slots, hands each attempt to an Executor and keeps every result
// until the holder says that its fate is stable. It also holds the store of
// artefacts: modules and config documents, addressed by SHA-256.
//
// It decides nothing about jobs: what runs where, how often and what counts is
// the scheduler's. It reads no log.
//
// # Executors
//
// WASM runs a WASI command in a child process per slot. A child, because
// compiled guest code cannot be preempted by Go's collector and would stall
// the daemon's heartbeats, and because a stranger's code should have one more
// wall around it. The child is the daemon's own program, started again with
// Options.RunnerArgv; it runs RunnerMain. What a guest sees: standard input
// with the config document, standard output for its result, standard error,
// the environment SKEIN_ITERATIONS, SKEIN_SEED_OFFSET, SKEIN_CHUNK_ID and
// SKEIN_SEED, random bytes that depend on (SKEIN_SEED, SKEIN_SEED_OFFSET)
// only, and clocks that start at a fixed instant and advance by being read.
// No files, no sockets, no arguments, no other environment.
//
// Exec runs a program of the host, one that its configuration allows by name,
// and gives it the same standard input and environment. Each attempt has a
// supervisor, a child like those of WASM, which ends the program and whatever
// descends from it, wherever that went, when the attempt ends or the daemon
// dies; where a cgroup was delegated, the kernel sees to it as well. A program
// that kills its own supervisor is stopped by the cgroup alone.
//
// An error of an executor says whose fault it was: what this host could not run
// is no failed attempt of the work (cluster.FailedInfra).
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
// # Results
//
// A result is dropped only by Accepted, by Cancel, or when the outbox is over
// its limit and the result has been kept for Options.KeepFor. While the outbox
// is full no new chunk starts. A result is in the journal of the outbox before
// it is sent, so a killed daemon loses none; what a power failure takes, the
// scheduler runs again.
//
// # Drain and stop
//
// Drain lets what runs go on, gives back what is queued, and takes nothing new,
// over restarts too, until it is undone. At the end of Run's context the same
// happens, and what still runs after Options.DrainTimeout is given back as well.
// What is given back (cluster.HandedBack) is no failed attempt.
//
// # Goroutines
//
// Worker.Run owns the queue, the slots and the outbox; it ends when its
// context ends and the drain is over. It owns one goroutine per executor
// (ends when the drain is over) and one per running attempt (ends when the
// attempt does). Each Serve owns one writer (ends when Serve returns).
// Each program of Exec has one reader for each of its outputs and one for its
// supervisor (end with the attempt).
// WASM.Run stays on one operating system thread, from which all children are
// started: the kernel kills them when that thread, and so the daemon, ends.
//
// # Ordering
//
// On one stream Welcome comes first, then the kept results, oldest first.
// Chunks start in the order in which they were assigned. A result may be sent
// more than once, on different streams.
package worker
