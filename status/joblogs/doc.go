// Package joblogs answers what attempts at a job's chunks wrote to standard error: a
// stream of lines, to be followed while the job runs.
//
// It has no goroutines beyond the one that keeps a silent stream alive, which ends with
// the answer.
package joblogs
