// Package tui is the live picture of `skein top`: a model that takes what a watch
// says and what keys are pressed, and the text of the screen that follows. The model
// has no clock and does no I/O: messages carry the time. Run shows it on a terminal.
//
// It decides nothing about the cluster: tables and sentences are those of package
// present, what may be changed is the daemon's affair.
//
// Goroutines of Run, all of which end before it returns: one reads the watch, one
// hands what came on, at most five times a second, one looks at the terminal.
// Names come from other hosts: no control character of theirs reaches the screen.
package tui
