// Package sim runs whole clusters of lease cores in simulated time, from a
// seed: several hosts that run nothing but lease.Step, a modelled shell around
// each (fsync that takes time, heartbeats, catch-up of the log), a network
// that loses, delays, repeats and reorders, and faults: partitions in both and
// in one direction, crashes that keep only the vote record, pauses during
// which the clock goes on, clock rates that differ by up to 2 percent,
// handovers, failed self-checks, hosts that join. It judges with true time.
//
// Checked throughout: a term has one holder (I1); two unpaused hosts never
// both believe to hold, unless both are still in the modes for one or two
// voters (I2); terms of effects and promises never fall (I3). In every part of the network
// that has a fit host somebody publishes, but for a bounded time after a change,
// and nobody does beside a lease that it sees. After all faults
// are healed: there is a holder in bounded time, and once the hysteresis is
// over it is the best eligible host and everyone is a voter (I10); a handover
// takes less than a second (I13), and the holder publishes alone.
//
// Non-goals: the log, the workers, real time. Only tests import it.
//
// Goroutines: none; a World is used by one goroutine. Order: events run by
// time, ties in the order in which they were scheduled, so a seed always gives
// the same run.
package sim
