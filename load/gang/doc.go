// Package gang decides how a load test runs on several hosts: who takes part, with which
// share, and when which clock reads the start. It has what the holder and those hosts
// say to each other.
//
// Non-goals: saying it (forward, backend/loads), sending anything (load/slice).
//
// Goroutines: none.
package gang
