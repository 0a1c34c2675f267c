// Package onionbench compares the publisher with onionbalance on a private Tor
// network.
//
// Goroutines: those of the hosts, which end when the group does.
package onionbench
