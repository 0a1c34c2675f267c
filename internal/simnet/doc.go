// Package simnet is an in-memory network for tests: datagrams and streams
// between hosts named by address, with delay, jitter, loss, one-way cuts,
// partitions and crashes. It waits on channels and timers only, so it runs
// inside a testing/synctest bubble, where hours pass in milliseconds.
//
// The fate of a packet depends on the seed, the link and the packet's number
// on that link, not on the order in which goroutines run, so a run with one
// seed is repeatable as far as the code under test is.
//
// Datagrams may be lost, delayed and thereby reordered. Streams are neither
// lost nor reordered: a cut holds their bytes until it is healed, loss adds a
// retransmission delay, and a crashed host leaves its peers waiting until
// their deadlines, or until it is up again and refuses.
//
// Goroutines: none of its own; delayed datagrams are delivered by timers.
package simnet
