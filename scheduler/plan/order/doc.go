// Package order has the containers that keep the steps of a plan cheap: a heap
// whose elements can be moved, a queue of small numbers by a rounded key, and a
// set of small numbers. Once they have grown they take no memory.
//
// Non-goals: what the elements mean; use by several goroutines.
//
// Goroutines: none.
package order
