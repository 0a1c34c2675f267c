// Package policy decides what a host does for the cluster's onion addresses:
// whether it publishes one, which hosts could, whose introduction points belong
// in the descriptor, and which suspected host to ask behind its onion.
//
// Values in, values out. Policy.Decide gets what is known of all hosts and
// returns a Decision; the probes in it are for the caller to send, whose results
// come back by Policy.Answered. Until the first answer a suspected host counts
// as one that answers.
//
// Two rules keep an address reachable. That two hosts publish it who know the
// points of all is harmless, that nobody does is not: where it is not known who
// can, somebody does. And no rule leaves out every host: hosts whose backends all
// fail are a reserve, taken if no other host has points.
//
// Non-goals: descriptors and directories (package publisher), who has the
// publishing duty (package lease), reaching a host (package onion).
//
// No goroutines, no locks: the caller's loop owns a Policy.
package policy
