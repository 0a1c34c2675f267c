// Package past tells what the log of this host said of the cluster at an earlier time,
// and how much happened when. It is not for what is now, nor for single events.
//
// Folding a log takes a processor for seconds, so one replay runs at a time, and of
// those that wait only the latest goes on: who drags a slider wants the last one.
//
// Goroutines: none of its own.
package past
