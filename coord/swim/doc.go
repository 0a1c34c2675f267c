// Package swim judges which hosts of a large cluster live, at a cost per host
// that does not grow with the cluster. It is a pure core: Step takes an event
// and the local time, changes the Core in place, and returns what to do. Equal
// options, events and times give equal actions; chance follows from a seed.
//
// Once a period a host probes one other, in an order that visits each once per
// turn. Who does not answer in time is probed again and by three others, each
// of which says so if it gets no answer either (nack). If all that fails, the
// host is suspected:
//
//	unconfirmed --round trip--> alive --probe failed, or hearsay--> suspect
//	                             ^ ^                                  |   |
//	                             | +---- heard, or refuted -----------+   |
//	                             |                                        | deadline
//	                             +---- heard, or refuted -- failed <------+
//	                             +---- new boot ----------- left
//
// A suspicion ends at its start plus a time that independent witnesses
// shorten: helpers that got no answer, and hosts whose own probes failed. Only
// the suspected host refutes it, by a higher incarnation; incarnations are
// ordered within a boot, boots by their counter. A direct sign of life ends a
// suspicion here, and the host is told that others doubt it. Nobody is
// suspected before it answered this host once.
//
// What changes travels on the messages that are sent anyway, at most MaxDeltas
// on each, as often as the logarithm of the cluster's size: refutations first,
// then failures, then suspicions, the least often sent first. What is urgent is
// also sent to two hosts at once, a few times. A delta says how long ago a
// suspicion began, so that all hosts end it at about the same moment.
//
// A host that is itself slow or badly connected must not accuse others. It
// raises its local health score (0 to MaxScore) when it was late, when helpers
// said nothing at all, or when it had to refute; the score makes its timeouts
// longer. Time by which it was late does not count as silence of others, and
// while no helper answers, what it suspects it keeps to itself.
//
// Failed is not gone: one failed host is tried again every Timing.Retry, and
// ten a second for a while after one of them was heard. A host that hears nobody at
// all takes all as failed, and as alive again when it hears one.
//
// Non-goals: sockets, signatures, who is a member, what follows from a
// failure. A verdict says that a host cannot be reached; that it is dead, and
// its work lost, needs more time than that.
//
// Goroutines: none. Order: actions are to be carried out in the order given.
package swim
