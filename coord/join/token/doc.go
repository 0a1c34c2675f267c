// Package token is an invite as it is handed to a new host: the text, the names of
// invites, from which every member knows whose they are, and secrets that cannot
// be printed.
//
// Non-goals: which invites there are, and admitting anybody (package join).
//
// It has no goroutines.
package token
