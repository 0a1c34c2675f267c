// Package scheduler carries out the plan of scheduler/plan for one term of the
// lease at a time: it takes submissions, speaks with the workers of all hosts,
// turns the plan's decisions into events and the events into frames.
//
// Ordering. Every decision is an event, durable before anything follows from
// it: an assignment before it is pushed, an accepted result before the worker
// hears of it. A worker is told to drop a result only when what became of it
// is stable, so that a lost holder loses no finished work. Results of earlier
// attempts and terms are welcome while their chunk is open; only authority is
// fenced. Before every append and every push the lease is checked.
//
// Parts. term is the loop: it takes what the inbox holds, lets the plan decide and
// carries it out. Beside the plan it has the batch (decided, not carried out), the
// appender (into the log), settling (what waits for stability, of package settle), links (streams to
// hosts, package link, and the workers that they lead to: a host's own, and with package
// seats those that no host runs), jobs (which there are), stops (which are to end) and runs
// (workflows, whose steps are jobs as all others). None but the last, which submits and
// stops jobs, refers back to it.
//
// Non-goals: who holds the lease (lease), what runs where (scheduler/plan),
// what the log means (eventlog/state), running anything (worker).
//
// Goroutines. Run owns them all and waits for them: the loop, which owns the
// plan and the links (ends when Run's context ends, the lease is lost or the
// log refuses an append); one settler, which waits for stability, and one assembler of
// package runs (both end with the loop); per known host one link, and one more to its outside workers if it lets
// any in (both end with the loop, or when the host is no longer a member).
//
// Channels. Requests: capacity 64, when full Submit answers ErrBusy; stops and
// handing over have as many places of their own, and go first. Worker frames:
// capacity 1024, when full the links block, which their workers see as a slow
// reader; status frames are dropped then, and counted. Frames to one host: 256, to its
// outside workers 16384; when as many wait the stream is closed, counted, and opened again.
// Settlements: handed over one batch at a time; while too many wait, the loop
// reads no worker frames.
package scheduler
