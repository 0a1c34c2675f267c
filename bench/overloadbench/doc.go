// Package overloadbench measures what a host still does in time when it is asked for four
// times as much as it can: with the gate that every daemon has, beside a host that takes
// everything on and one with a fixed number of places.
//
// It has no goroutines that outlive a round.
package overloadbench
