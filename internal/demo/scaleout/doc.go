// Package scaleout shows skein with the servers of others beside it: three hosts, two of
// them gateways behind a balancer, a Redis that these share, a Centrifugo with the connections of
// many outside workers, and a PostgreSQL with a portal's table, all on this machine. A job goes
// from the table into the table while a gateway, Centrifugo, Redis and the holder are killed; what the table says in the end is compared,
// bit by bit, with what one computer alone makes of the same job.
//
// Outside workers are those of package outside, each with a key, an address of 127.1.0.0/16
// and a directory of its own. They live in this process and share what computes: as many
// children as there are processors, at most mostChildren.
//
// Non-goals: figures of how fast it is (package bench has them), and any server that was
// there before.
//
// Goroutines: one per outside worker and those of package outside below it, one for what
// they share, and those of two balancers; all end before
// Run returns.
package scaleout
