// Package balance is a small load balancer of connections for demos and tests: one address for
// several servers of this machine. Each connection goes to the next server that answers, or to
// the one that Only names, and comes there from the address that the client has.
//
// Non-goals: requests, TLS, health; a balancer for production.
//
// Goroutines: one that accepts, and three for each connection. They end with Close.
package balance
