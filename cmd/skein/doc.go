// Command skein is the daemon and its client in one binary: `skein run` is the
// daemon, every other command talks to its socket or works on its state
// directory. Main only maps flags to options; each command has its own file.
//
// Results go to stdout, everything else to stderr. Exit codes: 0 ok, 1
// failed, 2 usage, 3 daemon unreachable, 4 not found, 5 not permitted, 6
// reachable but degraded, 7 timed out, 8 goal failed, 130 interrupted.
//
// Goroutines: none of its own; those of the daemon end with `run`.
package main
