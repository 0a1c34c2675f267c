// Package main is the command mutate. It breaks the lease or the log in one known way at a
// time and shows that something notices. A mutant is a replacement of text in
// one file, given to `go test -overlay`; nothing in the product knows of it.
// Each line tells the share of the simulation's seeds that notice it, and the
// other tests that do. The command fails if a mutant's old text is not found
// exactly once, if it does not compile, or if nothing notices it.
//
// Usage, in the root of the repository: go run ./internal/sim/mutate [-seeds
// N] [-run NAME]. The last line is caught=C/M.
//
// Goroutines: none.
package main
