package config

import (
	"fmt"
	"strings"
)

// Error is one thing that is wrong with a configuration. Nothing was applied.
type Error struct {
	File string // path, "environment" or "flags"
	Line int    // 0: not from a file, or not known
	Col  int    // in characters, from 1; 0: the line as a whole
	Key  string // dotted path; empty: the file as a whole
	Msg  string
	Hint string // what to do about it
}

// Error returns "file:line: key: message", or "file:line:column: key: message".
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		if e.Line > 0 {
			fmt.Fprintf(&b, ":%d", e.Line)
		}
		if e.Col > 0 {
			fmt.Fprintf(&b, ":%d", e.Col)
		}
		b.WriteString(": ")
	}
	if e.Key != "" {
		b.WriteString(e.Key)
		b.WriteString(": ")
	}
	b.WriteString(e.Msg)
	return b.String()
}

// Errors is everything that is wrong, in the order of the file, never empty.
type Errors []*Error

// Error returns one line per error.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the single errors.
func (e Errors) Unwrap() []error {
	out := make([]error, len(e))
	for i, one := range e {
		out[i] = one
	}
	return out
}
