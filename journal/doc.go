// Package journal writes this host's own chain of the event log: the first
// events of a start, facts that others report to it in passing, and, on the
// holder, what the cluster believes of its members.
//
// A Journal queues facts for callers that must not wait, and appends for those
// that must. Chain confirms with the voters that the own chain is complete
// before anything is appended to it: appending to a chain that lost its end
// would fork it. It also waits until Gate says that this host's clock may stamp
// events. Members writes the health of members while this host holds the lease.
// Clock stamps the events. Mender fetches what a repair of the log found missing.
//
// Non-goals: it replicates nothing and folds nothing; that is eventlog's.
//
// Goroutines: Journal.Run, Chain.Run and Mender.Run block until their context ends; the
// caller owns them. Nothing else is started.
//
// Ordering: facts are appended in the order in which they were queued. A full
// queue drops the newest fact and says so in the daemon's log.
package journal
