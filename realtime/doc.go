// Package realtime serves watchers: a snapshot of what they chose, then what
// changes, and the event log from where they are.
//
// A Hub reads the views of its host for all watchers together, a feed for each
// topic, at most every 200 ms and only while somebody watches. It puts the
// differences into one ring (package delta), from which each Watch takes what it
// selected, at its own pace: a slow one holds up nobody, and is told everything anew
// once it has fallen behind the ring.
//
// The log is read for all of them together as well, at most every 100 ms, and by a
// Watch itself where it is behind that. No event is missed or told twice: each is known by its source
// and number.
//
// Non-goals: it speaks no HTTP, knows no user, and decides nothing. What a watcher
// may see it is told by Request.May.
//
// Goroutines: one for each feed that is watched, which ends with the last Close of
// its Watches. A Watch has none: it belongs to the goroutine that calls Next.
//
// Ordering: the rows of a topic change in order, and so do the events of a source.
package realtime
