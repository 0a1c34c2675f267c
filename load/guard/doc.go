// Package guard says to which addresses nothing is ever sent, whatever a scenario
// or a flag asks for, and how much goes to those that are everybody's.
//
// Non-goals: resolving names, dialling: who dials asks Refuse of each address, each
// time, so a name that is bound to another address later gains nothing.
//
// Goroutines: none.
package guard
