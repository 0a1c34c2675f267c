// Package topo decides what a host's WireGuard device should look like and
// which steps lead there from what it looks like now.
//
// Plan turns members into a Desired device: one peer per other member, one
// host prefix per mesh address, candidates for its endpoint. Diff compares
// that with an Observed device and returns Ops, in an order that is safe to
// carry out one by one and the same on every call. Nothing is replaced
// wholesale: sessions of peers that stay are never touched.
//
// What Diff never does, whatever it is asked:
//   - give a device its own key as a peer,
//   - take an address from one wanted peer for another, or route more than
//     single addresses to a peer,
//   - overwrite the endpoint of a live peer (last handshake younger than
//     LiveFor): what the device learned from authenticated packets is better,
//   - switch keepalive on before the first handshake.
//
// What was not done is reported as Refusals.
//
// A host changes its WireGuard key in the open: it announces the next one, and
// Resolve lets both be peers until a session shows which one it has. The
// addresses and the end of the old key are then one step.
//
// Non-goals: addresses are certified elsewhere, never chosen here; rotation
// of candidates is a matter of time and belongs to the device's owner, which
// asks NextEndpoint.
//
// The package is pure: values in, values out, no goroutines.
//
//	want, conflicts := topo.Plan(topo.Input{Self: self, Members: members, Port: 51820, MTU: 1420})
//	ops, refused := topo.Diff(want, seen)
package topo
