// Package notify calls the hooks of who wants to know what a loop learnt, so that
// a slow one delays nobody else. Of members and health only the latest state
// waits; notices wait in order, at most 256, and the oldest are lost, counted.
//
// Goroutines: Run, which ends with its context after the last notices.
package notify
