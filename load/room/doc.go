// Package room says whether a process has room for the connections that a plan of a load test
// needs, before anything is sent: files that it may have open, ports of this machine. It bounds
// the garbage that a generator leaves, too.
//
// Goroutines: none.
package room
