// Package state is the fold of the event log: what the events of all sources
// together mean. It is pure; a State belongs to one caller at a time.
//
// A State hands each event to the part that it is about: chains, which says what
// counts, leaseHistory, hosts, groups, onions, users, owners, and package jobs. Each part folds
// its events, writes and reads its canonical bytes (package canon), and answers
// what readers ask of it.
//
// Order. Events of one source are applied in the order of their sequence
// numbers; events of different sources may come in any order, and the State is
// the same: Hash and AppendBinary give the same wherever the same events were
// applied. For that, every part of the State is the least or greatest of a
// set, the greatest few of a set, or a sum of integers, and what cannot be
// understood yet (an event of a job whose submission is still missing) is
// parked until it can.
//
// Fences. A term_start carries a cut. An authority event of a lower term
// beyond the cut is void, whether it is learned before or after. A term_start
// that is itself void fences nothing. When a late term_start voids what was
// folded already, Apply answers rebuild, and the State must be folded again by
// Refold, which knows the cuts learned so far.
//
// Base. A State may begin with an earlier one instead of the first event: by
// Decode, or by Refold from a base. What the base holds is settled: an event
// that would change its meaning, as a fence that voids a part of it or another
// submission of one of its jobs, has no effect, is counted and is named by
// Refused. If the base is the fold of a stable cut, a majority of the voters
// held it before the next term was granted, so no valid term_start voids any
// of it, and what a State gives from a base is what it gives from the first
// event. All hosts must use the same bases if they are to agree about events
// that only a faulty host can have written.
//
// Forks. Of a source that signed two histories nothing counts from the first
// event in which they differ: Fork ends its chain there, for every reader,
// whichever of the two it holds and in whatever order it learns of it. What the
// source accepted there is open again.
//
// First wins. Of several live submissions, results or ends of one thing, that
// with the least (HLC, source, sequence) counts. Two live results of a chunk
// that differ mark it disputed; the first still counts.
//
// Ended jobs. The event that ends a job tells its result. With it the job is
// sealed: whatever is learned of its chunks later, or was learned before,
// changes nothing, and the chunks are forgotten. An end without a result, as
// written by older versions, keeps them.
//
// Forgotten jobs. jobs_forgotten takes a job out of the State; events of its name
// with a lower (HLC, source, sequence) mean nothing from then on, whenever they
// are learned, and those with a higher one belong to a new job of that name. That
// an event forgets jobs is itself forgotten 30 days before the latest such event.
//
// Bounds. The highest MaxTerms terms are kept one by one, lower ones are
// summed up; of operators' actions and of changes of the publishing duty the
// latest. Fences are kept until a base settles them, jobs until an event forgets
// them. Hosts and incarnations are kept for ever.
//
// Aggregates. Per job and metric the accepted results are merged in a binary
// tree over the chunk index whose shape depends on the number of chunks only,
// so their bits are the same on every host and in every order of arrival.
//
// It does no I/O, checks no signatures and no hash chains; that is the log's.
package state
