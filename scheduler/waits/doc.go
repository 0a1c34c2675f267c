// Package waits decides when the log hears why a job waits: once it has waited for some
// time, and again when the reasons have been others for as long.
//
// Non-goals: the reasons, which scheduler/plan finds.
//
// Goroutines: none.
package waits
