// Package left knows what attempts leave beside their results: which artefact has what a
// failed attempt said, for the first failures of each job, and how many bytes of files the
// chunks of a job left, which are bounded.
//
// Non-goals: where any of it is stored.
//
// Goroutines: none. Results belong to the loop of a term.
package left
