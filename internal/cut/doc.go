// Package cut stands between the hosts of a cluster on this machine and cuts them off from
// each other: for the demo, and for tests. A Line does so between a TCP server and its
// clients.
//
// Non-goals: delay and loss; joins, which do not come over the mesh.
//
// Goroutines: one for each socket, and one for each way of a connection. They end with Close.
package cut
