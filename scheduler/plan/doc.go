// Package plan decides what runs where: which worker gets which chunk, what a
// result means, when work is taken back and when a job ends. It is pure: Step
// takes one event and the time and answers with actions; the caller logs and
// sends. A Plan belongs to one caller at a time.
//
// Life of a chunk:
//
//	pending -- assign --> assigned -- valid result --> accepted
//	   ^                     |
//	   +-- failed, reclaimed +-- budget spent --------> given up
//
// An assigned chunk has one or more attempts (tries), each at one worker with
// a deadline. A valid result of any attempt, past ones included, closes the
// chunk and cancels the others; there is never a second accept.
//
// Choice. Jobs take turns, in order of submission. A chunk goes to the worker
// that would be done with all it has soonest: backlog in iterations by measured
// rate. A worker holds at most max(2, 2*slots) attempts, enough to keep it busy
// and little to lose. A worker on which the chunk failed before is taken only
// when there is no other.
//
// Suspects. A worker that is suspect, or whose stream is gone for longer than
// Config.Grace, gets nothing new, and nothing is taken back; but when a slot is
// free elsewhere and nothing is pending for it, its attempts are copied there.
// What a dead worker or one that left had is taken back at once.
//
// Budget. A failed attempt counts against JobSpec.Attempts of its chunk: an
// error, an invalid result, or no result in time from a healthy worker. Work
// lost with its worker does not, but MaxLost losses give a chunk up as well. A
// job whose first 2*Attempts attempts, of several chunks and (where there are
// several) workers, all failed without one success, fails at once. Otherwise it
// goes on to the end and is completed, partial or failed by what was accepted.
//
// Deadlines. Every attempt has one; a failed chunk waits at most MaxBackoff for
// its next attempt; a job for which no worker is fit waits, and says so by
// Starved.
//
// Non-goals: time, I/O, the log, permission to act.
package plan
