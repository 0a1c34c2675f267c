// Package canon holds what all parts of a state share: the order of the events
// of all sources, registers that keep the first or the latest value, and the
// canonical bytes. docs/state-format.md describes these.
//
// A Writer and a Reader number hosts and sources as they occur: what is written
// with one Writer is read with one Reader, in the same order.
//
// Non-goals: what is written, and in which order, which each part of package
// state decides for itself. Nor does a Reader notice all that is not canonical:
// its caller writes again what was read, and compares.
//
// Goroutines: none.
package canon
