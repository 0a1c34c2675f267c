// Package pseudonym takes the names out of what skein says of a cluster, for whoever
// shows it to strangers: of hosts, users, zones and the cluster itself, addresses, onion
// addresses and domains. Text and profiles in, the same with other names out.
//
// Goroutines: none.
package pseudonym
