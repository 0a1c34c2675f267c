// Package advice is an error with what to do about it, apart: a log has both in one line, a
// table in two columns.
//
// It has no goroutines.
package advice
