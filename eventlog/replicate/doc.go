// Package replicate carries chains between hosts, and knows which voters hold
// the own one. New own events are pushed to the other voters at once; what is
// missing here is pulled. What comes from other hosts is stored only if its chain
// is dense, its hashes match, its clock is not ahead, and its source has signed
// its head. Chains that run ahead are listed, so that people hear of them. Two signed histories of one source are a proof, which hosts pass on.
//
// An event is stable when Stability.Wait says so: then it lies inside the cut of
// every later term that was caught up with CatchUp. That holds because a voter
// reads its promised term after an event is durable, and answers heads for a
// term only after it has promised it.
//
// # Goroutines
//
// Run starts all of them and waits for them. One pusher per other voter (ends
// when the voter set drops it or Run's context ends) keeps a stream and a reader
// of its answers. One puller (ends with Run's context) asks a random peer now and
// then; on a host that does not vote one follower (ends with Run's context) has a
// voter report what is new. Serve runs in the caller's goroutine.
//
// Each stream has at most eight unanswered messages; then its sender waits for
// the other side, with a deadline.
//
// # Non-goals
//
// Writing to the disk: package store. Snapshots, which are fetched where events
// are no longer retained: package snapshots.
package replicate
