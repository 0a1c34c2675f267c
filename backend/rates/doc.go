// Package rates measures how fast jobs get on, from one query to the next, by what
// the log says and by what the workers say of the chunks that run.
//
// Non-goals: how fast workers are, see scheduler/plan/pace.
//
// Goroutines: none. A Tracker may be used by several.
package rates
