// Package clockwatch compares a host's clocks from turn to turn of a loop: one
// that goes on in suspend, one that does not, and the time of day. It finds out
// when the machine slept, the process stood still or the time of day jumped: no
// lease can be timed across any of these.
//
// A forward jump of the time of day counts as the end of the lease, since that is
// what a machine sees that was paused from outside together with all its
// clocks. A jump or a standstill of more than a quarter of the lease makes the
// clocks distrusted for as long.
//
// It decides only: readings are arguments, and there are no goroutines. A Watch
// has one owner.
package clockwatch
