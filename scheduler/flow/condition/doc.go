// Package condition reads and evaluates the expressions of steps, which say whether one is
// run. Who evaluates one, the holder in its loop among others, cannot interrupt that: before
// it, the work and the memory are held against what is allowed, by the values that it sees.
//
// Goroutines: none.
package condition
