// Package pipe is a buffered stream inside the process, and the deadline that
// it and the simulated network wait by. Unlike net.Pipe it holds what was
// written, so that writing does not wait for a reader.
//
// It has no goroutines but the timers of deadlines.
package pipe
