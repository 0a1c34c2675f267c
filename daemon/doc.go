// Package daemon is the wiring: it is the only package that knows everyone.
// It opens the state directory, starts the stages in order, carries the
// decisions of one package to the next, and stops the stages in reverse.
//
// Stages, in start order: state directory and identity, mesh, its plan, event
// log, coordination, worker, journal of the membership, own records, holder
// duty, join listener, status socket. Each has a name and a deadline to stop;
// the sum stays under the service manager's limit.
//
// Goroutines, all owned by Run and ended by it: one per stage that runs, one
// that follows the lease, one per held term. Three own state that others ask
// for: the planner (the mesh device, the cache of endpoints, the names file),
// the care for own records (announcement, certificate, WireGuard key, leaving)
// and the journal (events about the membership, in a queue of 256; when it is
// full the newest is dropped and the log of the daemon says so). The checks of
// the log read all of it, one check at a time, once a day and when asked to.
//
// Requests that another host must carry out go over one stream protocol: to
// the holder, following the lease while it moves, or to the sponsors in turn.
// Who shall vote is such a request, from the operator of the holder or of a
// sponsor. The publishing duty needs no holder: it is passed to the publisher,
// an interface, as the lease core decides it.
// A voter that leaves or is removed is taken out of the voters first, while it
// still can agree, and only then is its key ended.
//
// It decides nothing that a core decides: who holds is lease's, what runs
// where is scheduler/plan's, what the log means is eventlog/state's, who is a
// member is coord/member's, what the device should be is mesh/topo's.
package daemon
