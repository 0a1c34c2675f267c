// Package gatebench compares what lets outside workers in with what it is built on: its
// pushes with a bare node of centrifuge, its tokens with a bare handler of net/http, its
// one stream for all of them with a stream to each of as many hosts.
//
// Goroutines: those of the servers and their clients, which end with the group.
package gatebench
