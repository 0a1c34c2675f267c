// Package redistest starts a Redis for a test, if this machine has one.
//
// It has no goroutines but those of servertest.
package redistest
