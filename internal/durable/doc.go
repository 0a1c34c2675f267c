// Package durable holds the few file operations that every store of small
// state needs: replace a file so that a crash leaves the old or the new bytes,
// never a mixture, find out that a disk changed it, and lock a directory against a
// second process. The files of a state directory stand in catalog.go.
package durable
