// Package joboutputs tells which files the chunks of jobs left, reads them from whoever
// keeps them, and decides which files a job may be given: outputs of its owner's jobs, and
// what was uploaded.
//
// Non-goals: it keeps nothing, and who may read is decided before.
//
// Goroutines: none.
package joboutputs
