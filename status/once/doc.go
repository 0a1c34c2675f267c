// Package once has a change that is asked for again under the same key answered as
// before, and not carried out again: whoever lost an answer asks without fear. It is
// not for jobs, whose key is in the log.
//
// It has no goroutines.
package once
