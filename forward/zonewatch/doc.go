// Package zonewatch makes what the hosts of a zone watch cross to the zone once.
//
// What watchers are told of workers, zones and jobs is what the holder says, and each host
// asks for it while it has watchers. Where the holder is in another zone one host asks it for
// all of the zone: the first by name of those that live and have time (Relays). The others
// ask that one, which answers from what it was told, as fresh as it would be for watchers of
// its own (Hub). Whoever does not answer is left out for a while, from one second to thirty,
// and the next one by name asks instead; a host that is left without asks the holder.
//
// Since a host asks only those before it by name there are no circles, whatever each host
// sees of the others.
//
// What a load test counted each host asks for from a position of its own. Who asks for the zone
// tells whoever comes to the same position within a second the same, and with it the next
// position, so that all of them go on from there together (Hub.WatchLoad).
//
// Non-goals: what users ask for once goes to the holder at once. What is passed on is not
// signed: of workers, zones and half-edges of others a host believes one of its zone, as it believes the
// holder. Nothing is decided by it.
//
// It has no goroutines. Its methods may be called from any.
package zonewatch
