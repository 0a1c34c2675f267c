// Package doctor finds out what is wrong with a host and its cluster, and says what
// to do about it. A check turns facts into a verdict with a hint; its name is its
// heading in docs/operations.md.
//
// Judging is pure: cluster.go, lease.go and log.go judge a Cluster, plain values that
// the caller gathered, and host.go what is known of the machine. The facts of the
// machine come from gather.go, which opens, binds and writes what the daemon would,
// and undoes it.
//
// It repairs nothing and remembers nothing between two examinations.
//
// Goroutines: one per check while Examine or Alone runs. A check that hangs is
// abandoned after three seconds and ends when its system call returns.
package doctor
