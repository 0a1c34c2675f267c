// Package transport carries what hosts say to each other: signed datagrams and
// TLS streams inside the mesh, and both between onion services while the mesh
// does not carry them.
//
// Datagrams of at most 1200 bytes are accepted in a fixed order of checks: size,
// shape, sender is a member and the source address is the certified one, rate
// (50/s, burst 100 per peer), clock window, replay window, addressee and
// signature; then the replay window moves and the payload is read. Each refusal
// has one reason and one counter. Of two processes with one identity the one
// started last counts. Somebody who can send from a member's address without its
// key does not know its boot and so cannot use up its rate.
//
// Streams are TLS 1.3; both ends show the identity key that their certificate
// record names, and ALPN chooses the protocol. A stream to this host itself
// stays inside the process.
//
// What the mesh does not carry goes over onion services, if Options.Fallback
// says how: package path chooses for each host, and a stream to the other's
// service then carries the same signed messages, framed, at most 100 a second.
// Whoever is at its other end proved its key in TLS, so that they count as
// coming from its certified address. Other streams take the same path, except
// those of Fallback.Bulk. Timeouts and the tolerance of timestamps are three
// times as long there.
//
// Non-goals: what messages mean, who is a member, and when to send what.
//
// Goroutines, all started by Run or by a call while Run is active, and ended
// before Run returns:
//
//   - the writer of datagrams, Run itself; ends after CloseSend, when its queues
//     are empty;
//   - the reader of datagrams; ends when the socket is closed, after the writer;
//   - the accepter of streams, that of this host's onion service, and one goroutine
//     per stream that is being accepted or served; they end when Run's context
//     ends, which closes every stream;
//   - one per dial of another's onion service, at most 8, and two per stream of
//     messages, at most 64 such; they end likewise.
//
// The methods of Transport that its owner alone may call say so; the owner calls
// them from one goroutine.
package transport
