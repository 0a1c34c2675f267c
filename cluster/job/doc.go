// Package job is the vocabulary of work: what a job is (Spec, Policy), the states
// of jobs and chunks, and what chunks compute (Metric, Sketch, Result). It
// validates and merges values; it decides nothing and performs no I/O.
//
// A job is split into chunks, each a range of its iterations. An attempt is the
// n-th try at a chunk. Results merge to the same bits on every host: metrics as
// in Welford (1962) and Chan, Golub, LeVeque (1979), sketches exactly.
//
// Everything here is a value. Slices and maps inside a value are never
// modified after the value has been handed on.
package job
