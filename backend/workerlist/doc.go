// Package workerlist makes what people see of the workers of what the plan knows: a list,
// or one with the outside workers of each gateway as one. It has no state, goroutine or
// I/O, and asks nobody.
package workerlist
