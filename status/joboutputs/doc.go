// Package joboutputs serves the files that chunks of jobs left.
//
// Goroutines: none.
package joboutputs
