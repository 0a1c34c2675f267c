// Package refusals says why a sponsor refused to admit a host: to this host's log and
// to a counter. Whoever asked gets the same answer to all of them, since a stranger
// learns from a difference.
//
// It is not for the reasons that a newcomer finds itself, which are errors of package
// join. It has no goroutines.
package refusals
