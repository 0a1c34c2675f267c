// Package testbed runs three hosts of skein, in this process or as daemons, and three nodes of hashicorp/raft in
// this process, on sockets of the loopback device that can be counted, delayed and
// cut, with stores on disk.
//
// Non-goals: measuring; that is up to the groups.
//
// Goroutines: those of the clusters, which end with Close or Crash.
package testbed
