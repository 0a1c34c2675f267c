// Package proof answers what is asked about one event as its host wrote it. It is not
// for reading the log: package status sends that.
//
// It has no goroutines.
package proof
