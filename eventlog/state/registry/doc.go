// Package registry folds who is let in from outside: workers that no host runs, access
// tokens, and the gateways that let them in.
//
// Enrolments and tokens are registers: the latest event decides. That a worker is revoked
// is for ever, whatever stands before it or behind it. Of each host the two keys count
// that it opened a gateway with last: tokens of the one before are still good.
//
// Non-goals: whether somebody is let in now, which package gateway/registry says, and how
// many there may be, which the holder sees to before it logs one more.
//
// Goroutines: none.
package registry
