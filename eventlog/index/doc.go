// Package index finds the events about a job, a host, a worker or a user without
// reading the log: of each full segment a file says in which blocks of 64 KiB
// something is named, and of each chain's last segment memory does.
//
// It only ever says where an event certainly is not. What it has no answer for,
// because a file is missing, damaged or of another segment, is read; the file is
// then made again. Nothing else depends on these files: they lie outside the
// log's directory, no backup needs them, and they go with their segments.
//
// # Goroutines
//
// Keeper.Run, which ends with its context. Find is called from any goroutine.
package index
