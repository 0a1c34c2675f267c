// Package engine runs a load test from this host: users that go through a flow,
// arrivals at their instants or users that begin again, connections, names, rows of
// data, cookies, and the windows in which all of it is counted.
//
// What is due is due: an arrival that finds no user free waits while its clock
// runs, so a target that stands still shows in the latencies. What the generator
// itself is late is counted apart, and a run in which that matters is suspect.
//
// No address is dialled that load/guard refuses, whatever a name resolved to before.
//
// Non-goals: files (rows, keys and scenarios arrive as values), reports, more than
// one host.
//
// Goroutines, all owned by Engine.Run, which returns when they have ended: one for
// each traffic, which begins users or has arrivals come; one for each user, ends with
// its traffic, at the latest when grace is over; one for each step but the first that
// is ready at once in a flow with `after`, ends with its step; one that resolves names
// again; one that watches for a stop. Run itself counts the windows.
package engine
