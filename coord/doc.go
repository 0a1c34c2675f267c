// Package coord is a host's part in the cluster: it says that it lives and
// hears who else does, spreads membership records, feeds the lease core and
// carries out what it decides, and gives the rest of the daemon authenticated
// streams to the other hosts.
//
// Messages are signed datagrams of at most 1200 bytes on UDP port 51821 inside
// the mesh. They are accepted in a fixed order of checks: size, shape, sender
// is a member and the source address is the certified one, rate (50/s, burst
// 100 per peer), clock window, replay window, addressee and signature; then
// the replay window moves and the payload is read. Each refusal has one reason
// and one counter. What does not fit a datagram is pulled over a stream: a
// heartbeat carries a digest of the sender's records, and a host whose digest
// differs fetches what it lacks.
//
// Heartbeats are the whole upkeep: they refresh a member, which is stale after
// 5 minutes of silence, measure round trips, carry where the sender's
// WireGuard device sees others (at most 3 such endpoints are kept of a member,
// one per reporter, for 10 minutes) and so tell a host that it is behind NAT.
// A silent host is tried again after a fortieth of the time it has been silent,
// at most every minute, for ever; every 2 minutes it is told this host's
// records again, in case it lost them. When a dead host is heard, all silent
// ones are tried at once. A heartbeat padded to the mesh's MTU is the one
// datagram that is longer than 1200 bytes: while small ones are answered and
// three tries of these are not, the path swallows full packets, and
// OnBlackhole is told. A revocation goes to all members at once, before all
// else that waits to be sent, and whoever learns of it passes it on.
//
// Two duties follow from the lease. To schedule takes a term, see MayAct. To
// publish does not, see MayPublish: it goes on in every part of a network that
// is cut. A heartbeat's role says whether its sender publishes; its holder and
// term say which lease the sender sees. A claim to publish under a term below
// that of a lease which is valid here is refused and counted, the rest of its
// heartbeat stands.
//
// A host tells the others its introduction points and which of its backends
// fail, see PublishIntroPoints and ReportUnhealthy; a heartbeat's digest mends
// what was lost, and a list that does not fit a datagram is pulled. Both end with
// their host.
//
// Of two processes with one identity every host takes the one started last,
// counts what the other says and tells OnDuplicate; the other fails its
// self-check. Somebody who can send from a member's address without its key
// does not know its boot and so cannot use up its rate.
//
// Leases and duties go by a clock that runs in suspend. A gap between it and
// Go's own counts as the end of the lease; so does a forward jump of the time of
// day, since that is what a machine sees that was stopped from outside. A jump
// or a loop that stood still for more than a quarter of the lease makes the
// self-check fail for as long.
//
// Up to 64 other hosts get heartbeats directly. In a larger cluster package swim
// judges them by one probe a second, and news of hosts travel on probes and
// answers; heartbeats go, about once a minute, to the holder, the voters, the
// publisher and 3 others, and to every host once when this one comes to hold or
// to publish. An answer carries what a heartbeat says in brief, with the digests
// by which records are pulled. A host that swim cannot reach is suspect at once
// and dead 120 seconds after its last sign of life; the holder and a voter judge
// each other by silence, of which renewals are signs of life. A host whose
// heartbeats name no incarnation knows no probes: it is spoken to directly.
//
// Unsigned heartbeats of protocol version 1 are taken from hosts listed in
// Options.Legacy, at their certified address, as a sign of life only.
//
// Streams are TLS 1.3 on TCP port 51821 inside the mesh; both ends show the
// identity key that their certificate record names, and ALPN chooses the
// protocol. A stream to this host itself stays inside the process.
//
// What the mesh does not carry goes over onion services, if Options.Fallback
// says how: package path chooses for each host, and a stream to the other's
// service then carries the same signed messages, framed, at most 100 a second.
// Whoever is at its other end proved its key in TLS, so that they count as
// coming from its certified address. Other streams take the same way, but those
// of Fallback.Bulk. Silence is judged more patiently then, timestamps and
// timeouts three times as far; the lease's own times stay as they are, so that a
// holder whose renewals are too slow loses it as ever. Heartbeats go over the
// mesh as well meanwhile, and three in a row that arrive bring messages back.
//
// Non-goals: the mesh itself, invites and joining, what a term entitles to,
// what the log or the scheduler say over a stream.
//
// Goroutines, all started by Run and ended before it returns:
//
//   - the loop, the only writer of membership, health and lease state; ends
//     when Run's context ends, after it has given up the lease and said so;
//   - the reader of datagrams, which owns rates and replay windows; ends when
//     the socket is closed;
//   - the writer of datagrams; ends when the loop has ended and its queue is
//     empty;
//   - the accepter of streams, and one goroutine per stream that is being
//     accepted or served; they end when Run's context ends, which closes every
//     stream;
//   - the accepter of the own onion service; one per dial of another's, at most
//     8, and two per stream of messages, at most 64 such; they end like streams;
//   - one per pull, at most 4 of records and 4 of introduction points; each
//     ends within its timeout;
//   - the notifier, which calls OnChange, OnBlackhole, OnDuplicate, OnMembers
//     and OnHealth,
//     and the saver of records; they end after the loop.
//
// Ordering: the core's actions are carried out in the order given, a vote is
// durable before anything that follows from it is sent, MayAct says no before
// anything that follows from losing a lease is done, and yes only after
// everything that leads to it. Actions are delivered in order. OnChange and
// OnBlackhole are called in order and before the OnMembers that follows from
// them, and a View has what OnMembers tells before it is called. Between
// different hosts nothing is ordered, and any datagram may be lost.
//
// Nothing that a message says executes, configures or reveals anything.
package coord
