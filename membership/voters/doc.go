// Package voters is what operators see and change of who votes on the lease:
// Of shows the voters as a host knows them, Voters is the holder's part in a
// change. A set that could not hold the lease at once is refused: to get there
// the old and the new voters must agree, and until they do nobody may act.
//
// Non-goals: it changes no voter itself. The lease core does, one at a time.
//
// Goroutines: none.
package voters
