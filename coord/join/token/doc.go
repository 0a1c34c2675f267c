// Package token is an invite as it is handed to a new host: its text, the ids of
// invites, from which every member can tell who issued them, and secrets that
// cannot be printed.
//
// Non-goals: which invites there are, and admitting anybody (package join).
//
// It has no goroutines.
package token
