// Package source reads where the outputs of a step come from, and takes them from the
// result of its job and the files that this left.
//
// Goroutines: none.
package source
