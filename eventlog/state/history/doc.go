// Package history tells how a job and its chunks changed, from the job's events
// in order. It goes by the tables of states (event.JobEdges, event.ChunkEdges): an
// event for which they have no edge changes nothing.
//
// Non-goals: what a job is now, which package state says, and which events are
// void.
//
// Goroutines: none.
package history
