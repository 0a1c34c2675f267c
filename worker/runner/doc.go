// Package runner is the process in which a guest or a program runs: the child of
// package executor, and the frames that the two exchange.
//
// What a guest sees: standard input with the config document, standard output
// for its result, standard error, the environment SKEIN_ITERATIONS,
// SKEIN_SEED_OFFSET, SKEIN_CHUNK_ID and SKEIN_SEED, random bytes that depend on
// (SKEIN_SEED, SKEIN_SEED_OFFSET) only, and clocks that start at a fixed instant
// and advance by being read. No files, no sockets, no arguments, no other
// environment.
//
// A program runs below a supervisor (see Program), which finds and kills what
// the program leaves behind.
//
// Non-goals: judging results, and starting processes like itself.
//
// Goroutines: Main owns one that reads tasks and one that runs guests; both end
// with the process. A supervisor owns one that waits for its program and one that
// reads orders.
package runner
