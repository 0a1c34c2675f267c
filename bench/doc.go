// Command bench compares skein with other projects, in one run on one machine:
// rounds of both take turns, and each row of its table is a figure of skein, the
// peer's and their ratio. It runs in its own directory.
//
//	go run . -out results.json
//
// docs/benchmarks.md says what the rows mean. The program fails only if it
// could not measure: a target that is missed is a row that says so.
//
// All hosts live in this process, on sockets of the loopback device: datagrams
// and streams pass through the kernel. Stores lie in a temporary directory and
// are synced as in production.
//
// Goroutines: those of the clusters, which end when the group that started them
// ends; each cluster is closed before the next group begins.
//
// The groups are packages beside this one; suite is what they share and testbed
// has the clusters of skein and raft.
package main
