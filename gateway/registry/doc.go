// Package registry says who is let in from outside, as the log of this host has it: the
// workers that no host runs, by the ids that follow from their keys, and the holders of
// access tokens.
//
// A Registry reads. It remembers nothing: what the log says now counts, so who is revoked
// is shut out as soon as this host has heard of it.
//
// Non-goals: keys, signatures and sessions of those that come, which is the gateway's; the
// fold itself, eventlog/state/registry.
//
// Goroutines: none. Its methods may be called from any.
package registry
