// Package joblogs tells what attempts at a job's chunks wrote to standard error: it asks
// each host for what it keeps (package worker/words), and of hosts that are gone tells
// what the cluster kept of the first failures.
//
// A reader that follows sees what is added on the hosts at which the job has attempts,
// and on those that get some later. Nothing is queued: a reader that does not read holds
// up the hosts that tell, which then leave out what they no longer keep.
//
// Non-goals: it keeps nothing, and who may read is decided before.
//
// Goroutines: those of a call, one for each host that is asked at the time, at most
// eight, or when followed one for each host with attempts; they end before it returns.
package joblogs
