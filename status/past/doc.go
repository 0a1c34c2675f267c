// Package past answers what is asked about the past of the log: a replay up to a
// moment, and how much happened when. It is not for single events.
//
// It has no goroutines.
package past
