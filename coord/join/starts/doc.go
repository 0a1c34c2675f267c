// Package starts counts the starts and announcements of a host, in two files of its
// state directory: every number is durable before it is used, and higher than all
// before, whatever became of the file.
//
// It has no goroutines.
package starts
