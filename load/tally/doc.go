// Package tally counts what many users do at a time: each shard is some of them, and what
// it has counted is taken from it once a window.
//
// Non-goals: what is counted (load/stat), windows (load/engine).
//
// Goroutines: none. A Shard may be used by any number of them; what Swap returns belongs to
// the one that called it, until it calls it again.
package tally
