// Package settle waits until what was decided about attempts survives the loss of the
// host, so that workers may forget them.
//
// Non-goals: what is decided, and telling the workers, which package scheduler does.
//
// Goroutines: that of Run, which ends with its context.
package settle
