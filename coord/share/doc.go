// Package share spreads what each host says of its part in the onion addresses:
// its share of them, in pieces that are opaque here, and which of its backends
// fail. A share that does not fit a datagram is pulled over a stream; a
// heartbeat's digest mends what was lost. Both are forgotten with their host.
//
// In a large cluster only the hosts that publish or hold the lease keep shares.
//
// Non-goals: what a share means, whether a backend is really down.
//
// Shares has one owner, which calls its methods from one goroutine but for
// Publish and ReportBackends. It starts one goroutine per pull through
// Options.Go, at most 4; each ends within its timeout.
package share
