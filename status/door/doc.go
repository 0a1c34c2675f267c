// Package door finds out who asks something of the status server, on the socket by
// what the kernel says, elsewhere by the proof of a user, and what they may do.
// Package access has the rules; a Door remembers which proofs were used, and how
// many of an address were refused.
//
// Non-goals: it answers nothing itself and knows no route.
//
// Goroutines: While starts one for each stream, which ends with it.
package door
