// Package duty turns what the lease core decides into what a host does: catch
// up with a majority of the voters, open the term in the log, write what changed
// of the members, schedule, flush, let go. It passes the publishing duty on,
// which needs no term.
//
//	Acquired -> catch up -> term_start stable -> schedule -> Quiesce or Lost
//
// Whatever fails while the lease is held is tried again: only the lease ends a
// term. Nothing is written before this host's chain is known to be complete.
//
// Non-goals: it decides nothing about the lease, which is the core's, and nothing
// about jobs, which is the scheduler's.
//
// Goroutines: Run blocks until its context ends and owns one goroutine per term
// held and one per configuration of voters to confirm; they end when the term
// does.
package duty
