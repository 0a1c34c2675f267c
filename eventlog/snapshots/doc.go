// Package snapshots lets a log go on from a snapshot of its fold. The holder
// folds the events up to a cut, and asks the voters to sign. A voter signs if it
// holds the cut, has promised no higher term, and folds the same bytes. What a
// majority has signed goes into the log as an event, and every host that has the
// events of the cut makes the snapshot by itself, checks the signatures, and goes
// on from it. An event that would change it from below is refused, counted and
// named by the state. Package snapshot explains why a history that correct hosts
// wrote has none.
//
// Two snapshots are kept. Full segments below the older one may be dropped:
// first they are copied to the archive, then the manifest says so, then they
// are removed. A host that lacks events which a peer has dropped fetches the
// peer's snapshot if a majority of the voters, as it knows them, has signed or
// vouches for it, and its chains go on from the cut.
//
// # Goroutines
//
// Run (ends with its context) does one thing at a time, and folds at most one
// state; while it folds it rests as long as it works. It asks all voters at once
// for signatures, with one goroutine each (ends with the answer or the deadline).
//
// # Non-goals
//
// What a snapshot is and who must sign it: package snapshot.
package snapshots
