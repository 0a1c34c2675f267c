// Package wait has the one sleep that ends with a context, and tickers that share
// their ticks.
//
// It has no goroutines.
package wait
