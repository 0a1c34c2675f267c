// Package loglimit keeps a flood of bad input from becoming a flood of log
// lines: of each kind of line one per interval passes. Counters show the rest.
//
// It has no goroutines.
package loglimit
