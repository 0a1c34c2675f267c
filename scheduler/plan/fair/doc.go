// Package fair decides whose job is next, and what an owner may submit.
//
// Owners get equal shares of the workers' time by deficit round robin: each is
// given a share when it is its turn, and pays for a chunk what the chunk is
// expected to take. Of one owner's jobs the one with the best priority goes
// first, until others have waited long enough.
//
// Non-goals: which chunk of a job and which worker, which a Giver decides.
//
// Goroutines: none.
package fair
