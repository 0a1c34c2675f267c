// Package lastseen remembers when the other voters were last heard, over the end of the
// daemon: an operator who is about to give them up is told.
//
// Non-goals: it judges nobody.
//
// It has no goroutine: what Remembering returns runs in the caller's.
package lastseen
