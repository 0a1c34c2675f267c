// Package plan decides what runs where: which worker gets which chunk, what a
// result means, when work is taken back and when a job ends. It is pure: Step
// takes one event and the time and answers with actions; the caller logs and
// sends. A Plan belongs to one caller at a time.
//
// Life of a chunk (machine.go has the table):
//
//	pending -- assign --> assigned -- valid result --> accepted
//	   ^                     |
//	   +-- failed, reclaimed +-- budget spent --------> given up
//
// An assigned chunk has one or more attempts (tries), each at one worker with a deadline. A valid
// result of any attempt, past ones included, closes the chunk and cancels the others; there is never a
// second accept.
//
// Parts. Plan takes the events; what they lead to is gathered in actions. roster knows the workers and
// who may get something now, work the open jobs, their chunks (board) and the attempts (try). chooser
// gives chunks to workers, in the order that package fair says; intake decides about results; watch
// finds workers that are stuck; timers holds all times to come. Calls go from Plan down to chooser and
// intake, from these to work, from work to roster.
//
// Choice. Owners get equal shares of work by deficit round robin; of one owner's jobs the one with the
// best priority goes first, until others have waited Config.Ageing longer per step (package fair). A
// chunk goes to the eligible worker with room that would be done soonest: the estimated time of what
// it has, by its measured rate at that kind of work, rounded to an eighth of an octave. A worker holds
// what its slots run and what they finish in two round trips. One on which the chunk failed before, or
// that failed several times in a row at that kind of work, is taken only when there is no other.
//
// Eligible. The workers with the job's executor, in its zones, that its permission allows: exact sets,
// kept per distinct need (package eligible).
//
// Doubt. A worker that is suspect, or whose stream is gone for longer than Config.Grace, gets nothing
// new, and nothing is taken back; but when a slot is free elsewhere and nothing is pending for it, its
// attempts are copied there. What a dead worker or one that left had is taken back at once. Near the
// end of a job, attempts that take twice the usual time are copied too, at most one in twenty slots.
//
// Health. A worker is live, ready and progressing, or something less. One that has work and from which
// nothing comes for long is evicted for a while; when most seem stuck at once, one at a time.
//
// Budget. A failed attempt counts against job.Spec.Attempts of its chunk: an error, an invalid result,
// no progress, or no result in time from a healthy worker; on four hosts it is parked, which is given
// up too. An attempt and its copy count once, and while one of them runs the chunk is not given up;
// the log does not tell copies apart, so after a change of the holder each counts. Work lost with its
// worker, or that its host could not run, does not count, but job.Policy.Losses of them give a chunk
// up as well. A job whose first 2*Attempts attempts, of several chunks and (where there are several)
// workers, all failed without one success, fails at once. Otherwise it goes on to the end and is
// completed, partial or failed by what was accepted, or ends early when a metric is known well enough.
//
// Trust. Members of the cluster are believed, unless the job asks for checks (job.Policy.Replication):
// operators let in their own hosts and vouch for them. When results differ, more hosts are asked until
// enough agree; who was wrong starts over.
//
// Strangers. Workers that no member runs may lie, fail, vanish and be one another. They get only what
// is for them, and they are given it: what one says that it has is not adopted. Its results count as
// package trust says, and once three were wrong it gets nothing more. What a member says where only
// strangers have spoken decides at once, so lies cost members nothing. Bad ends at strangers use up no
// budget, and after three of them a chunk goes to members, as long as one is fit. How long a stranger
// took the holder's clock says, when the result counts, and of that stranger alone. Free members'
// slots, for which nothing is pending, get copies of what only strangers have.
//
// Deadlines. Every attempt has one, and more time only for real progress, at most as much again; a
// failed chunk waits at most MaxBackoff for its next attempt; a job may have one, and a time in which
// something must get on; a job for which no worker is fit waits, and says so by Starved. All stand in
// one heap.
//
// Non-goals: time, I/O, the log, permission to act.
package plan
