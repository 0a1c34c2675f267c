// Package sim runs whole clusters of lease cores in simulated time, from a
// seed: one to seven hosts that run nothing but lease.Step, a modelled shell
// around each (fsync that takes time, heartbeats, catch-up of the log), a
// network that loses up to 40 percent, delays by up to 2 s, repeats and
// reorders, and faults: partitions in both and in one direction, crashes that
// keep only the vote record, records that turn out to be older ones or lost,
// pauses during which the clock goes on, suspends, clocks that jump, clock
// rates that differ by up to 2 percent, handovers, drains, failed self-checks,
// hosts that join or leave for good, operators who choose voters and modes.
// It judges with true time.
//
// Checked throughout: a term has one holder (I1); two unpaused hosts never
// both believe to hold, unless a voter of one may hold alone (I2); terms of
// effects and promises never fall (I3); a holder never starts from an older
// configuration than one that was stable (I4, as far as the core knows); a
// voter gives a term to one candidate over all its lives (I5); a holder hands
// over on its own at most once per least tenure (I11). In every part of the
// network that has a fit host somebody publishes, but for a bounded time after
// a change, and nobody does beside a lease that it sees. After all faults are
// healed: there is a holder in bounded time, and once the hysteresis is over it
// is the best eligible host, everyone is a voter and nobody abstains (I10); a
// handover takes less than a second (I13), and the holder publishes alone.
// Zoned worlds (zones.go) lie in zones 50 to 300 ms apart, lose one packet in a hundred
// for ever and whole zones now and then, and in the end one after the other, the holder's
// first; bounds grow by round trips where no safety hangs on it.
// Histories of what hosts did to the lease and to a fenced register are
// linearizable.
//
// To replay a seed with a line for all that happens: go test ./internal/sim
// -run 'TestSim$' -seeds 1 -seed N -steps. A violation prints this command.
//
// Non-goals: the log, the workers, real time. Only tests import it.
//
// Goroutines: none; a World is used by one goroutine. Order: events run by
// time, ties in the order in which they were scheduled, so a seed always gives
// the same run.
package sim
