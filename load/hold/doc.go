// Package hold makes a load test send nothing for a while, and says for how long that was.
//
// Non-goals: why (load/slice), what is sent (load/engine).
//
// Goroutines: none. The methods of a Gate may be called from any.
package hold
