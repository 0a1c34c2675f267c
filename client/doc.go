// Package client speaks to a cluster from outside or inside: it submits jobs, waits
// for them, reads their results and watches, by way of any of several hosts, and goes
// on by another when one dies.
//
// Each request goes to the better of two random endpoints, by what failed there of
// late and how fast it answered. What fails and may be repeated is tried again, after
// a random pause of up to 0.1 to 10 s, while the context lasts and the budget of
// tries (a tenth of the calls, and one a second) does. No other layer repeats: hosts
// are told how long the caller waits, and give up then. A submit has a key, so that
// however often it is sent there is one job.
//
// What is read of jobs is not older than what a Client changed: a host that has not
// heard of it yet answers when it has, or another one does.
//
// Non-goals: it decides nothing about the cluster, keeps nothing on disk, and knows no
// endpoint that it was not told. Client.API has a method for each route; what is here
// is made of those.
//
// Goroutines: a Client has none until a job is submitted with callbacks; then up to
// four for each such job, which end when the job has ended, with the context of
// Submit, or with Close, and which Close waits for. All callbacks of a job run on one
// of them, one after the other: while one does not return, no more is read, and a host
// cuts off who reads nothing for 15 s, which is then read again. A panic in one
// becomes the error of Job.Wait. Everything else blocks its caller.
//
// Ordering: results come in the order of the log, each chunk once, also across hosts.
// Snapshots of a job may go back a little when another host tells them.
package client
