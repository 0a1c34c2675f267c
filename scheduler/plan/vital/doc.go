// Package vital says how a worker is: whether it can be reached, how it gets on with
// what it has, and what that means for what it gets.
//
// Non-goals: when something counts as slow, and what follows, which the plan decides.
//
// Goroutines: none.
package vital
