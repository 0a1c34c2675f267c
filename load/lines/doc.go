// Package lines finds on which line each key of a TOML file begins.
//
// Non-goals: what the file says, and whether it is TOML: the decoder has taken it.
package lines
