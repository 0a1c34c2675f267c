// Package wire is the coordination protocol's datagram: the envelope
//
//	{"node_id", "timestamp", "type", "payload", "v", "boot", "seq", "to", "sig"}
//
// its strict parser, the detached signature over the exact payload bytes, the
// replay window and the payload types.
//
// A message is checked in a fixed order, and every refusal has exactly one
// Reason: size and shape (Parse), then source and rate (the caller's), time
// (Message.Fresh), replay (Window.Check), addressee and signature
// (Message.For, Verify); only then Window.Advance and the payload (Decode).
//
// A message is at most MaxDatagram bytes long. A heartbeat may have spaces
// behind it, up to MaxProbe, if it says how long the whole is: such a probe
// finds out what a path carries.
//
// The six messages are heartbeat, peer_announce, intro_points, lease_claim,
// lease_release and backend_unhealthy; revoke came later. DecodeShare reads
// a host's share of the onion addresses that was pulled.
//
// Names of fields are lower-case ASCII letters, digits and '_' everywhere in a
// message, so that no two names differ by case only; a repeated name, a number
// of 2^53 or more, or nesting deeper than MaxDepth refuses the message.
// Unknown fields are ignored.
//
// Non-goals: sockets, rate limits, who is a member, what a lease message
// means. The package starts no goroutine and promises no ordering.
package wire
