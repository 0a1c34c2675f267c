// Package trials lets one trial of a job's work run at a time: the owners of jobs
// come in turn, and a trial is short while another owner waits. Whose turn it is
// decides scheduler/plan/fair.
//
// Non-goals: what a trial is (worker/executor), and what follows from it
// (scheduler/plan/pace).
//
// Goroutines: none; who asks waits.
package trials
