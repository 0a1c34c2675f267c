// Package deviceplan makes the mesh device, the cache of endpoints and the file
// of names follow the membership.
//
// Every change of the membership, and a look every ten seconds at the networks
// around this machine, lead to a new plan (mesh/topo). A device that refuses a
// plan is given it again after a second. A host that is no longer a member leaves
// its device as it was.
//
// Non-goals: it decides nothing about members, and does not look after single
// peers; that is mesh's.
//
// Goroutines: Run blocks until its context ends, and is the only one that sets
// the device; Do runs a function in it.
package deviceplan
