// Package past answers what is asked about the past of the log: a replay up to a
// moment, how much happened when, and how a job went. It is not for single events.
//
// It has no goroutines.
package past
