// Package executor runs attempts in processes of their own.
//
// WASM runs a WASI command in a child process per slot. A child, because
// compiled guest code cannot be preempted by Go's collector and would stall
// the daemon's heartbeats, and because a stranger's code should have one more
// wall around it. The child is the daemon's own program, started again with
// WASMOptions.RunnerArgv; it runs runner.Main.
//
// Exec runs a program of the host, one that its configuration allows by name,
// and gives it the same standard input and environment. Each attempt has a
// supervisor, a child like those of WASM, which ends the program and whatever
// descends from it, wherever that went, when the attempt ends or the daemon
// dies; where a cgroup was delegated, the kernel does so as well. A program
// that kills its own supervisor is stopped by the cgroup alone.
//
// An error says whose fault it was: what this host could not run (Infra) is no
// failed attempt of the work.
//
// Non-goals: which attempt runs when, and what becomes of its result.
//
// Goroutines: WASM.Run stays on one operating system thread, from which all
// children are started: the kernel kills them when that thread, and so the
// daemon, ends. Each program of Exec has one reader for each of its outputs and
// one for its supervisor; they end with the attempt. Collect has two, which end
// before it returns.
package executor
