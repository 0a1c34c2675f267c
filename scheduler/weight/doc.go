// Package weight bounds how large events are before they are encoded.
//
// Non-goals: their encoding, which is cluster/event's.
//
// Goroutines: none.
package weight
