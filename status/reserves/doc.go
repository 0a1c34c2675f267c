// Package reserves answers who asks to keep slots of zones for somebody.
//
// Non-goals: who may ask; how much may be kept, which the holder says.
//
// Goroutines: none.
package reserves
