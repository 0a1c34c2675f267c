// Package docs carries the pages of this directory from which `skein explain` takes
// what it says, and finds the topics in them: each kind of event, alert, check of
// doctor and metric has one, and each section of operations.md.
//
// Non-goals: the keys of the configuration and the exit codes, which tables of the
// program explain; how a section looks on a terminal.
//
// Goroutines: none.
package docs
