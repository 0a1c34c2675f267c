// Package notify calls hooks with what a loop has learnt, in a goroutine of its
// own, so that a slow hook does not delay the loop. Of members and health only the
// latest state waits; notices wait in order, at most 256: beyond that the oldest
// are dropped and counted.
//
// Goroutines: Run, which ends with its context after the last notices.
package notify
