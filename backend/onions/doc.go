// Package onions shows and changes the onion addresses of the cluster: which it serves,
// who has their keys, who publishes them.
//
// What needs the key of an address is done where it is kept: a host without it says who
// has it (api.Elsewhere). A key travels to another member only sealed for that one.
//
// Non-goals: serving and publishing, which package onion does.
//
// Goroutines: none.
package onions
