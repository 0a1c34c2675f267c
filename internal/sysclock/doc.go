// Package sysclock reads the clocks of this machine that Go's time does not: those that go
// on in suspend, or that the service manager goes by.
//
// Goroutines: none. Its functions may be called from any.
package sysclock
