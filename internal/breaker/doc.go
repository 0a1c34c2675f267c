// Package breaker stops asking a host for a while that does not answer: one breaker for each
// host and kind of stream.
//
//	closed --5 failures in a row, or half of 10 within 30 s--> open --10 to 60 s--> half-open
//	   ^------------------------3 successes---------------------------------------------|
//	                              open <--------------a failure-------------------------|
//
// A stream succeeds with the first byte that comes, and fails where it cannot be opened, or
// nothing comes for long. All else is neither: a refusal, a bound of this host, a caller
// that gave up. What must always be tried says so with Asking; it counts all the same.
// What is known of the host, that it started anew or lives again, ends a pause early.
//
// Non-goals: trying again, which is the caller's; how loaded the other host is, which it
// says itself by refusing.
//
// Goroutines: none.
package breaker
