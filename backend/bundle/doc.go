// Package bundle gathers what a host knows of itself into files: views as JSON, metrics,
// the last warnings, goroutines, heap, the processor for a while, and the newest events of
// the log, with what proves them.
//
// Non-goals: secrets. It reads no file of the state directory, the configuration comes
// redacted, and stacks come without the values of arguments.
//
// Goroutines: none but those of the runtime's profile. One Gather runs at a time.
package bundle
