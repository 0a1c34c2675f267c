// Package publisher carries out the publishing duty for one onion address.
//
// Core decides, without clock, randomness or I/O: it gathers changes, lets a
// descriptor be built, hands each directory its post, tries again what failed,
// fetches back what was stored, and stands back where a later term publishes.
// Its diagram is at the type.
//
// Goroutines: none yet.
package publisher
