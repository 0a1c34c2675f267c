// Package lanes says how urgent each request of the API is where a host has more to do
// than it can: what is shed first, and what never. A route without a lane is refused when
// the server is made.
//
// Non-goals: it refuses no request; package pressure/gate does, by what this says.
//
// It has no goroutines.
package lanes
