// Package workflows submits, shows and changes runs of workflows: what changes goes to
// the holder's scheduler, what is shown is read from the log of this host.
//
// Non-goals: what a definition means and what is to be done next (scheduler/flow).
//
// Goroutines: none.
package workflows
