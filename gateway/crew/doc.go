// Package crew serves stream.CrewProto to the holder, from a desk (package gateway/desk)
// at which outside workers attach: the door in this process, behind which the fronts
// are that workers reach from outside.
//
// Terms. Whom it serves is decided as for this host's own worker: the highest term that
// it has served or that the lease knows, of the host that has the lease. A newer stream
// replaces the one before it.
//
// Goroutines. Crew.Run lets time pass and ends with its context. Serve owns one writer
// per stream, which ends before Serve returns.
//
// Ordering. On one stream Welcome comes first, then each worker's Join before all else of
// it. What waits for the holder: MaxWaiting frames, when there are more the stream is
// ended and opened again, and all is told anew. What waits for one worker: maxPushes, when
// there are more the oldest are dropped, and the numbers of the others show it.
package crew
