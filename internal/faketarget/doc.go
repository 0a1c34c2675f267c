// Package faketarget is a target for load tests that does what is known: delays,
// freezes, failures, a login, redirects and cookies, and counts what it got. It
// listens wherever it is told, or nowhere: Pipe is a network inside a test, good for
// time that is not real.
//
// Non-goals: being fast.
//
// Goroutines: those of the http.Server that serves it.
package faketarget
