// Package onion has the commands about the onion addresses of a cluster: onion status, init,
// import, export, grant and so on.
//
// Non-goals: serving and publishing, which the daemon does.
//
// Goroutines: none.
package onion
