// Package suite is what all groups of the comparison share: how much is
// measured, the rows and their targets, statistics, what machine it is, whether it
// is quiet, and servers of peers as child processes.
//
// Non-goals: knowing any contestant.
//
// Goroutines: one for each server, ends with its process.
package suite
