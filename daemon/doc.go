// Package daemon is the wiring: it is the only package that knows everyone.
// It opens the state directory, starts the stages in order, carries the
// decisions of one package to the next, and stops the stages in reverse.
//
// Stages, in start order: state directory and identity, event log, mesh,
// coordination, worker, holder duty, status socket. Each has a name and a
// deadline to stop; the sum stays under the service manager's limit.
//
// Goroutines, all owned by Run and ended by it: one per stage that runs, one
// that follows the lease, one per held term.
//
// It decides nothing that a core decides: who holds is lease's, what runs
// where is scheduler/plan's, what the log means is eventlog/state's.
package daemon
