// Package template reads JSON values in whose texts ${...} names other values, and fills
// these in. A text that is one reference and nothing else keeps the type of what it names.
//
// Non-goals: which names there are, and what they stand for, which scheduler/flow says.
//
// Goroutines: none.
package template
