// Package after holds jobs that wait for others until these have ended, outside the plan.
//
// A job whose jobs have all ended as it wants is released; one of which a job cannot end so
// any more is skipped. What it waits for was submitted before it, so that no two can wait
// for each other.
//
// Non-goals: where jobs run, and everything else about those that wait for no others
// (scheduler/plan).
//
// Goroutines: none.
package after
