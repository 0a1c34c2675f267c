// Package cookies is what targets have a user of a load test remember, and which target gets
// what of it again.
//
// Non-goals: whose it is, and for how long (load/engine).
//
// Goroutines: none; a Jar has one owner at a time.
package cookies
