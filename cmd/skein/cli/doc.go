// Package cli is what all commands of skein share: the global flags, the
// terminal, the client of the daemon's socket, the forms of a result (table,
// wide, tsv, csv, json, jsonl, toml), the notation of sizes, ages and times, and
// errors with their exit code and hint.
//
// Results go to stdout, everything else to stderr. An error reaches stderr as
// "skein: error: ..." with at most one "skein: hint: ...", once, by App.Report.
//
// Non-goals: commands, which are in the packages beside this one.
//
// Goroutines: none.
package cli
