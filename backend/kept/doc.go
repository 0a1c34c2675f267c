// Package kept opens what a host keeps of jobs, and keeps as much of it as is needed: the
// modules and configs of open jobs and workflows (Artefacts), on every host; what jobs
// left (Outputs), on a few hosts that a draw over the names chooses; and what attempts
// that ran here said (Words).
//
// Non-goals: who may read it, and what it means.
//
// Goroutines: none of its own; Tend and TendOutputs run in their callers' until their
// contexts end.
package kept
