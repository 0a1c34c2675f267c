// Package waits tells on any host why jobs wait: the holder's scheduler knows it, and
// is asked.
//
// Non-goals: what keeps a worker from a job, which scheduler/plan finds.
//
// Goroutines: none.
package waits
