// Package guard is what gateways remember of those who ask, so that nobody asks too often,
// nothing that was signed counts twice and a claim code is good once: Limits and the
// interface Guard. Package gateway/guard/here has the form of one host, package store/redis
// that of several gateways which share one name.
//
// What is counted is decided by the gateway; here is only how much that may be, and what a
// Guard must hold.
//
// Non-goals: who somebody is; bounds of one process, as connections and bodies. Goroutines:
// none.
package guard
