// Package daemon is the wiring: it is the only package that knows everyone.
// It opens the state directory, makes the parts, hands each what it needs of the
// others, starts the stages in order and stops them in reverse.
//
// The parts are built from one another: ground (configuration, logger, metrics),
// identity (who this host is), history (the event log and what this host writes
// in it), onions (tor), device (the mesh), work (jobs), coordination, members,
// backend. Parts that are made before coordination ask it through peers.
//
// Stages, in start order: tor, mesh, its plan, event log, coordination, worker,
// journal, contradictions, own records, artefacts, log checks, repair, own chain,
// groups file, lease duty, onion addresses, join listener, status socket. Each has
// a name and a deadline to stop; the sum stays under the service manager's limit.
//
// Goroutines, all owned by Run and ended by it: one per stage. The doc of its
// package lists what runs within a stage.
//
// Non-goals: it decides nothing. Who holds is lease's, what runs where is
// scheduler/plan's, what the log means is eventlog/state's, who is a member is
// coord/member's, what the device should be is mesh/topo's.
package daemon
