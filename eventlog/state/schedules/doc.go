// Package schedules folds which workflows are to run by themselves, and what came of
// their times.
//
// Of what was said of a schedule the latest counts. Of its times the latest ones are kept,
// by the time they are of: of two events about the same time the first counts.
//
// Non-goals: when something is due (scheduler/schedule), and the runs that begin
// (eventlog/state/flows).
//
// Goroutines: none.
package schedules
