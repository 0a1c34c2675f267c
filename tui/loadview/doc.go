// Package loadview is the live picture of a load test on a terminal: a model that takes what
// a follower is told and which keys are pressed, and the text of the screen that follows. The
// model has no clock and does no I/O: messages carry the time. Run shows it.
//
// What it says of rates and latencies is of the last seconds, what it counts of the whole
// run; percentiles of several windows cannot be merged, so those are their mean by requests.
// The exact ones are in the report.
//
// Goroutines of Run, all of which end before it returns: one has the feed tell what was
// counted, one hands that on, at most five times a second. Names come from others: no control
// character of theirs reaches the screen.
package loadview
