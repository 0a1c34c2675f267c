// Package outside carries out what operators say of those that are let in from outside:
// any host takes it, the holder's scheduler logs it.
//
// A worker that was revoked is not enrolled again, and an access token that is good for
// something is not given to somebody else: the holder looks before it logs, at one change
// at a time. Of a token the host that is asked makes the secret, and only its hash travels.
//
// Non-goals: whether somebody is let in, which gateway/registry answers.
//
// Goroutines: none.
package outside
