// Package cluster is the vocabulary that every other package shares: the names
// of hosts, their roles, health and keys, members, voters, and the text forms
// and validation of each. It decides nothing and performs no I/O. Jobs are in
// cluster/job, events of the log in cluster/event.
//
// A host is a machine that runs the daemon, named by its NodeID. A member is a
// host with a valid signed record. The lease has one holder per Term.
//
// Everything here is a value. Slices and maps inside a value are never
// modified after the value has been handed on.
package cluster
