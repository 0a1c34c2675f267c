// Package loads serves the part of the API about load tests that run on hosts.
//
// Non-goals: carrying them out.
//
// Goroutines: none.
package loads
