// Package election feeds the lease core and carries out what it decides: who
// holds the lease, who has the publishing duty, and what this host may do under
// either.
//
// To schedule takes a term, see Authority.MayAct. To publish does not, see
// Authority.MayPublish: it goes on in every part of a network that is cut.
//
// Ordering: the core's actions are carried out in the order given, a vote is
// durable before anything that follows from it is sent, MayAct says no before
// anything that follows from losing a lease is done, and yes only after
// everything that leads to it. Actions are delivered in order.
//
// Lease messages, releases and voter configurations are accepted only from hosts
// of the same timing, with the signatures that they need.
//
// Non-goals: the protocol itself (package lease), who is alive, how messages
// travel.
//
// It starts no goroutines. An Elector has one owner, which calls all its methods
// from one goroutine but for Actions; an Authority is for every goroutine.
package election
