// Package bundle is a scenario with all that it names, as one document: so it travels to
// the hosts that run it, where the files beside it are not.
//
// Non-goals: secrets, which each host has, and variables of the environment, which are
// for runs from one machine.
//
// Goroutines: none.
package bundle
