// Package distance says how far the zones are from this host: by round trips that it
// measured itself in the last 5 minutes; where it has none by the median of what hosts
// report, those of its own zone about the other and those of the other about its own,
// from three reporters on, so that one liar moves nothing; and else by network
// coordinates (Vivaldi, of serf), which also tell of hosts that nobody here asked.
//
// A coordinate is what another host says of itself. What is not finite or lies more than
// two seconds from the origin is refused; a host that is often wrong counts little, and
// one that is wrong by more than all others, while this host knows where it is, does not
// move it at all.
//
// Non-goals: who measures and when; the timing of the lease, which no distance enters.
//
// Goroutines: none. A Distances belongs to one owner, who calls it from one goroutine.
package distance
