// Package reserves shows and changes for whom slots of zones are kept.
//
// Non-goals: keeping them, which the plan does where the lease is held.
//
// Goroutines: none.
package reserves
