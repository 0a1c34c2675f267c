// Package artefact stores modules and config documents by their SHA-256 and
// moves them between hosts. What Put and Fetch report as stored survives a power
// loss; what does not match its digest is dropped and reported.
//
// Non-goals: what an artefact means, and which ones are still needed: Collect
// is told.
//
// Goroutines: none of its own but those of Spread and Put, which end before these
// return.
// Serve runs on its caller's goroutine, at most 64 at a time; further requests
// are refused.
package artefact
