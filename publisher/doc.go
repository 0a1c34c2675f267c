// Package publisher carries out the publishing duty for one onion address: it
// makes descriptors out of what the hosts send in, and keeps them at the
// directories that clients ask.
//
// Core decides, without clock, randomness or I/O: it gathers changes, lets a
// descriptor be built, hands each directory its post, tries again what failed,
// fetches back what was stored, and stands back where a later term publishes.
// Its diagram is at the type. Publisher is the shell around it: it opens the
// hosts' descriptors, merges, builds, checks as a client, persists the revision
// and only then posts.
//
// What a host sends is hostile: a descriptor that is corrupt, foreign, replayed
// or empty is refused and reported, and the points that the host had before
// stay, as do all others'.
//
// Ordering: the Set methods never block; of values that come faster than they
// are used only the last one counts. Reports come in order from Run's goroutine.
// At a directory there is never more than one post or fetch of this address.
//
// Goroutines: Run's caller owns Run, which ends with its context. Each post and
// each fetch has one, which ends with the answer or after Timing.Answer; there
// are at most as many as directories, and Run waits for them.
//
// Non-goals: finding the hosts' descriptors and the consensus; deciding who has
// the duty (package lease); the control port of tor, see Uploader.
//
//	p, err := publisher.New(publisher.Options{Key: key, Uploader: tor, Floors: file})
//	go p.Run(ctx)
//	p.SetNetwork(network)
//	p.SetHosts(hosts)
//	p.SetDuty(duty) // from the lease core
package publisher
