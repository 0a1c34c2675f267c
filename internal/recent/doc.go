// Package recent keeps the last warnings of a logger, for whoever looks into a host
// later and has not its journal.
//
// Non-goals: what is less than a warning, and anything on disk.
//
// Goroutines: none.
package recent
