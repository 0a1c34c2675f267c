// Package ws is the one exchange over a WebSocket that a step of a load test makes: it opens
// one, sends a message, waits for answers, and closes it.
//
// Non-goals: who is dialled, which the client that it is given decides (load/engine).
//
// Goroutines: none that outlives Exchange.
package ws
