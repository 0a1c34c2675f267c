// Package zone judges how zones are: groups of hosts that fail together, by what the
// scheduler knows of their workers and coordination of their hosts.
//
// A zone is held against the hosts that it should have: its members, but those that
// were drained. It gets worse at once and better only after a while, so that what
// flaps counts as what it is at its worst.
//
// Non-goals: where jobs run; what is known of a host, which the caller says.
//
// Goroutines: none.
package zone
