// Package bucket is a token bucket without a clock: time is an argument, so
// that packages which only decide can use it and replay what they decided.
// Code at the edge uses golang.org/x/time/rate.
//
// It has no goroutines and no locks: a Bucket has one owner.
package bucket
