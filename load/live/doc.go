// Package live makes of counts what followers of a load test are told: the same for a run on
// hosts, which they ask a daemon about, and for one from this machine.
//
// Non-goals: keeping counts (load/stat), asking for them (backend/loads, api), showing them
// (tui/loadview, cmd/skein).
//
// Goroutines: none.
package live
