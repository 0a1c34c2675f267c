// Package fakeonion answers what the status socket is asked about onion
// addresses, with fixed values, for tests of the socket and of the commands.
//
// Non-goals: state. What is changed stays as it is.
//
// Goroutines: none.
package fakeonion
