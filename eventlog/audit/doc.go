// Package audit reads whole logs, open or not: it verifies them, folds them as
// of another time, and repairs them.
//
// Verify checks framing, checksums, hash chains, signatures, the cuts of term
// starts and the snapshots. Dir.ReplayAt folds a log up to a position or time.
// Repair sets damaged files aside, and a Mender fetches what was lost again.
//
// It starts no goroutines but those with which package segment reads, and a timer that
// ends what a Rewind keeps.
//
// # Non-goals
//
// Writing to a log that is open.
package audit
