// Package loads runs load tests on hosts. Any host takes one and tells how it gets on;
// whoever holds the lease carries it out: it asks the hosts what they allow, has them made
// ready, fixes in the log who takes part, starts all at one instant, each by its own
// clock, gathers what they count, judges it once, and logs the end.
//
//	queued --(asked, reserved, prepared)--> started --(all slices done or lost)--> ended
//
// One test runs at a time, the others wait. A new holder begins again what was queued,
// and goes on with what has started: hosts keep what they count, and tell it from the
// beginning.
//
// Ordering. What a host counts comes in frames that are numbered without a gap; the result
// is their sum, and so is what followers are told, to the count.
//
// Non-goals: sending requests (load/slice, load/engine), deciding who takes part
// (load/gang).
//
// Goroutines: Run of the holder's term, which carries out one test after the other, with
// one for each host that takes part; all end with the term.
package loads
