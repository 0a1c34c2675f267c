// Package wait has the one sleep that ends with a context.
//
// It has no goroutines.
package wait
