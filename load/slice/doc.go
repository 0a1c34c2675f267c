// Package slice is one host's part in a load test that runs on several: it asks the
// configuration of the host what may be hit, has the engine run in a process of its own,
// which dies with the daemon, and keeps what that counts until the holder has it.
//
//	preparing -> ready -> armed -> running -> done | broken
//
// One run at a time is held. While one is, the worker of the host begins no chunk, and
// what it runs is waited for. A slice of which no holder has heard for a minute before
// its start is dropped; one that runs ends when none asked for 30 s; what it counted is
// kept for ten minutes after its end.
//
// Non-goals: who takes part and when (load/gang, backend/loads), how requests are sent
// (load/engine).
//
// Goroutines: Run blocks until its context ends and looks after the slices; one for each
// slice that makes it ready and reads what its process says, ends with the process, which
// Run ends at the latest. In the process, Main reads orders beside the engine.
package slice
