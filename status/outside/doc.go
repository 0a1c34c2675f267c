// Package outside answers what operators ask and say of those that are let in from
// outside: workers that no host runs, and access tokens.
//
// It has no goroutines.
package outside
