// Package snapshot decides whether a snapshot of the event log is valid: its id,
// what the voters sign, which signatures suffice, and how snapshots and the
// record of dropped segments are kept in files. It is pure.
//
// A snapshot is the encoded fold of exactly the events up to a cut. Its id is
// the SHA-256 of everything that it claims but the signatures, so that whoever
// signs the id signs the cut, the bytes and the hash of the state.
//
// Why nothing before the cut is needed again. A voter signs only while it
// holds the cut and has promised no term above the snapshot's. A later term
// begins with the heads of a majority that has promised it; one of them has
// signed before, so every later cut contains this one. A term_start of an
// older term that lies beyond it lies beyond the cut of the snapshot's own
// term too, and is void. So no event to come voids or reorders what the
// snapshot holds. Where a voter may act alone there is no such majority: then
// all voters sign, each only if whatever it wrote beyond the cut is younger
// than everything within.
package snapshot
