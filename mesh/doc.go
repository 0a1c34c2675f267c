// Package mesh keeps one WireGuard device equal to a topo.Desired and offers
// sockets inside it: UDP, TCP listeners and TCP connections at mesh
// addresses. Nothing above it opens host sockets for mesh traffic.
//
// The backend of this build is "netstack": wireguard-go over a TCP/IP stack
// in this process. It needs no privilege and no kernel module; other
// processes of the host cannot use the mesh.
//
// Handshakes: if both ends start one together, both answers are thrown away
// and both wait 5 s, often to collide again. So the lower public key starts,
// at once when the peer is added, and repeats (after 0.3 s, growing to 60 s;
// the device itself repeats every 5 s in between). The other side starts only
// if it heard nothing for 2 s and a random part of another. As long as there
// is no session, packets for a peer wait in a queue of 16, the oldest dropped
// and counted when full. A packet that arrives from the peer, or a finished
// handshake, opens the queue. Sessions end 180 s after their last handshake;
// the queue then closes again.
//
// Endpoints: while a peer is out of reach its candidates are tried in turn,
// every 5 s plus up to 1 s, slower as the attempts are. The endpoint that the
// device last learned from the peer is one of them.
//
// Goroutines: Run is the owner of the device and of all peer state; it ends
// when its context is done or the device stops, and closes the device before
// it returns. The device's own goroutines (wireguard-go, TCP/IP stack) end
// within that. Set and the socket methods run on their caller's goroutine;
// each waits at most until its context is done or Run has ended, Dial at most
// DialTimeout.
//
// Ordering: Set returns after its operations were carried out, or with the
// first error. Two Sets take effect in the order in which they return.
// Packets to one peer keep the order in which they were written, also across
// the queue. Metrics and Observe show one consistent reading of the device, at
// most a second old.
//
// Non-goals: who is a member, addresses, endpoints learned through others,
// round-trip times.
//
// Example:
//
//	m, err := mesh.New(mesh.Options{Backend: mesh.BackendNetstack, PrivateKey: key, Listen: ap})
//	go m.Run(ctx)
//	want, conflicts := topo.Plan(...)
//	err = m.Set(ctx, want)
//	pc, err := m.ListenPacket(ctx, netip.AddrPortFrom(self, 51821))
package mesh
