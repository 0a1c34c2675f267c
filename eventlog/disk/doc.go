// Package disk is the disk as the event log sees it: the file system behind an
// interface that tests can make fail, how much room there is, and how much of
// it each host may take.
//
// A Room compares the free space with the reserve and the limit of the log. It
// keeps part of the reserve as a file, the ballast, and gives that back when
// there is no room even for essential events. It also bounds the bytes and the
// rate of each host's chains.
//
// # Goroutines
//
// Room.Run looks at the file system each second until its context ends. A file
// that grows fast has one goroutine that writes zeros over preallocated space
// (ends when that is done, or the file is truncated or closed).
//
// # Non-goals
//
// What is in the files: package store.
package disk
