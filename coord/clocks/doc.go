// Package clocks reads this host's clocks at every turn of a loop. It counts and
// logs when the machine slept, the process stood still or the time of day jumped,
// calls the parts that must make up for it, and fails a self-check while the
// clocks are distrusted. Package clockwatch judges.
//
// Non-goals: setting a clock; other hosts' clocks, but for the median offset.
//
// Goroutines: none. Clocks belongs to one owner.
package clocks
