// Package jsonbytes writes JSON as json.Marshal does, byte for byte, without reflection:
// for the few values that are written thousands of times a second.
//
// Non-goals: escapes. A text that needs one sets Writer.Fallback, and the caller marshals
// the value as usual.
//
// It has no goroutines.
package jsonbytes
