// Package main is the command mutate. It breaks the lease core in one known way at a time and shows
// that the simulation notices. A mutant is a replacement of text in one file,
// given to `go test -overlay`; nothing in the product knows of it. The command
// fails if a mutant's old text is not found exactly once, if it does not
// compile, or if neither a seed nor the core's unit tests catch it.
//
// Usage, in the root of the repository: go run ./internal/sim/mutate [-seeds
// N] [-run NAME]. The last line is caught=C/M.
//
// Goroutines: none.
package main
