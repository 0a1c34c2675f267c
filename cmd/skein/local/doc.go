// Package local has the commands that work on this host: the daemon itself (run,
// runner, init, demo), its configuration and state directory (config, root, net,
// log), and what is wrong with it (doctor). Most need no running daemon.
//
// Non-goals: the work itself. Each command calls a function of Options.
//
// Goroutines: none; those of the daemon end with run.
package local
