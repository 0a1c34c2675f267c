// Package pace says when arrivals are due and how many users there are: curves of
// linear ramps. Arrival n is due where the integral of the rate is n, computed for
// each n anew, so nothing drifts however long a run is.
//
// Non-goals: waiting, clocks.
//
// Goroutines: none.
package pace
