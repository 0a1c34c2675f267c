// Command skein is the daemon and its client in one binary: `skein run` is the
// daemon, every other command talks to its socket or works on its state
// directory. Main only hands the commands what they reach; each has its own file
// in hosts, jobs or local, and cli is what they share.
//
// Results go to stdout, everything else to stderr. Exit codes: 0 ok, 1
// failed, 2 usage, 3 daemon unreachable, 4 not found, 5 not permitted, 6
// reachable but degraded, 7 timed out, 8 goal failed, 130 interrupted.
//
// Goroutines: none of its own; those of the daemon end with `run`.
package main
