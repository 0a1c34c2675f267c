// Package state is the fold of the event log: what the events of all sources
// together mean. It is pure; a State belongs to one caller at a time.
//
// Order. Events of one source are applied in the order of their sequence
// numbers; events of different sources may come in any order, and the State is
// the same: Hash is equal wherever the same events were applied. For that,
// every part of the State is the least or greatest of a set, or a sum of
// integers, and what cannot be understood yet (an event of a job whose
// submission is still missing) is parked until it can.
//
// Fences. A term_start carries a cut. An authority event of a lower term
// beyond the cut is void, whether it is learned before or after. A term_start
// that is itself void fences nothing. When a late term_start voids what was
// folded already, Apply answers rebuild, and the State must be folded again
// from the first event by Refold, which knows the cuts learned so far.
//
// Forks. A source that signed two histories has no say from the first event in
// which they differ: Fork ends its chain there, for every reader, whichever of
// the two it holds and in whatever order it learns of it. What the source
// accepted there is open again.
//
// First wins. Of several live submissions, results or ends of one thing, that
// with the least (HLC, source, sequence) counts. Two live results of a chunk
// that differ mark it disputed; the first still counts.
//
// Aggregates. Per job and metric the accepted results are merged in a binary
// tree over the chunk index whose shape depends on the number of chunks only,
// so their bits are the same on every host and in every order of arrival.
//
// It does no I/O, checks no signatures and no hash chains; that is the log's.
package state
