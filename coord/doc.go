// Package coord is a host's part in the cluster: one loop that owns membership,
// health and lease. It says that this host lives and hears who else does, feeds
// the lease core and carries out what it decides, and gives the rest of the
// daemon authenticated streams to the other hosts.
//
// The packages below it have their own state and documentation: transport
// (datagrams, streams, paths), gossip (membership records), election (the lease),
// health (who is alive), share (the onion addresses), endpoint (where hosts are
// seen), pathmtu (paths that drop full-size packets), clocks (this host's), store
// (what survives a restart), notify (hooks of the daemon).
//
// Service gives each part its turn and holds no other state. Members follows the
// records; Lease is what the daemon asks of the lease and reports to it. For
// heartbeats, schedule decides when and to whom, statement what they say,
// heartbeats sends them, and listener takes those of the others. duplicates looks
// for a second process with an identity, and views decides when readers get the
// View that viewMaker makes.
//
// Heartbeats are the whole upkeep: they refresh a member, which is stale after
// 5 minutes of silence, measure round trips, carry where the sender's
// WireGuard device sees others and digests of what can be pulled. A silent host
// is tried again after a fortieth of the time it has been silent, at most every
// minute, for ever; every 2 minutes this host introduces itself to it again, in
// case it lost the records. When a dead host is heard, all silent ones are tried
// at once. A heartbeat padded to the mesh's MTU finds paths that drop full-size
// packets, see OnBlackhole. A claim to publish under a term below that of the lease
// that is valid here is refused and counted; the rest of its heartbeat stands.
//
// Up to 64 other hosts get heartbeats directly. In a larger cluster package swim
// judges them by one probe a second, and news of hosts travels on probes and
// answers; heartbeats go, about once a minute, to the holder, the voters, the
// publisher and 3 others, and to every host once when this one comes to hold or
// to publish. A host that swim cannot reach is suspect at once and dead 120
// seconds after its last sign of life; the holder and a voter judge each other by
// silence, and renewals count as signs of life. A host whose heartbeats name no
// incarnation knows no probes: it is spoken to directly.
//
// Of two processes with one identity every host takes the one started last,
// counts what the other says and calls OnDuplicate; the other fails its
// self-check.
//
// Non-goals: the mesh itself, invites and joining, what a term entitles to,
// what the log or the scheduler say over a stream.
//
// Goroutines, all started by Run and ended before it returns: the loop, which
// ends when Run's context ends, after it has given up the lease and said so;
// those of transport and gossip; one per pull, each ends within its timeout; the
// notifier, which calls OnChange, OnBlackhole, OnDuplicate, OnMembers and
// OnHealth and ends after the loop.
//
// Ordering: OnChange and OnBlackhole are called in order and before the OnMembers
// that follows from them, and a View has what OnMembers reports before it is
// called. Between different hosts nothing is ordered, and any datagram may be
// lost. Nothing that a message says executes, configures or reveals anything.
package coord
