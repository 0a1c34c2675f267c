// Package clockwatch compares a host's clocks from turn to turn of a loop: one
// that goes on in suspend, one that does not, and the time of day. It finds
// sleep of the machine, standstills of the process and jumps of the time of day,
// none of which a lease can be counted by.
//
// A forward jump of the time of day counts as the end of the lease, since it is
// what a machine sees that was stopped from outside together with all its
// clocks. A jump or a standstill of more than a quarter of the lease makes the
// clocks distrusted for as long.
//
// It decides only: readings are arguments, and there are no goroutines. A Watch
// has one owner.
package clockwatch
