// Package guestfs has the directories that a WASI guest sees: flat ones in memory, of
// files alone. Nothing in them leads out: there are no links, no directories below, and
// no name but the plain one of a file is understood. What a guest writes is bounded in
// bytes and in files; one that would exceed a bound gets an error, and Over tells of it.
//
// Times and numbers of files depend on what the guest does alone, so that it cannot tell
// one run from another.
//
// Non-goals: where files come from, and what becomes of those that a guest wrote.
//
// Goroutines: none. A Dir belongs to the goroutine that runs its guest.
package guestfs
