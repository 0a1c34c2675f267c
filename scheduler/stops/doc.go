// Package stops knows which jobs are to end whose attempts may still run, and which workers
// have to confirm that they do not.
//
// Goroutines: none.
package stops
