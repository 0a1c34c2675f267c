// Package schedule says when a workflow is due by a crontab line in a time zone, and what
// becomes of times that nobody could keep.
//
// A line is read by robfig/cron; the times are ours, so that days on which clocks change
// are right. A line with a fixed hour is due once on each day that it names: at the first
// of two such times in autumn, and at the end of the gap in spring if its time lies
// within. A line whose hour is * or has a step is due whenever the clock on the wall reads
// so: by elapsed time, which such a day has an hour less or more of.
//
// Non-goals: which schedules there are (eventlog/state/schedules), and beginning their
// runs (scheduler/runs).
//
// Goroutines: none.
package schedule
