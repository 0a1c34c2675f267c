// Package mesh keeps one WireGuard device equal to a topo.Desired and offers
// sockets inside it: UDP, TCP listeners and TCP connections at mesh
// addresses. Nothing above it opens host sockets for mesh traffic.
//
// Backends: "kernel" is the kernel's own WireGuard; its interface, sessions and
// routes stay when Run ends, and the next Run takes them over if the key is
// ours, so that traffic of other processes never pauses; Cleanup removes it.
// "tun" is wireguard-go behind an interface that goes away with the process.
// Both need CAP_NET_ADMIN, give the interface the mesh addresses and one route
// for each network, refuse networks that the host already uses, and bind their
// sockets to the interface: a packet with a mesh address that came in elsewhere
// reaches none. "auto" is the kernel or, if that has no WireGuard, tun; a missing
// right, a foreign interface or a taken port is an error. "netstack" is
// wireguard-go over a TCP/IP stack in this process. It needs no privilege and no
// kernel module, but other processes of the host cannot use the mesh, so it is
// never chosen by itself. The kernel and the stock bind of tun listen on every
// address of the underlay.
//
// Handshakes: if both ends start one together, both answers are thrown away
// and both wait 5 s, often to collide again. So the lower public key starts,
// at once when the peer is added, and repeats (after 0.3 s, growing to 60 s;
// the device itself repeats every 5 s in between). The other side starts only
// if it heard nothing for 2 s and a random part of another. As long as there
// is no session, packets for a peer wait in a queue of 16, the oldest dropped
// and counted when full. A packet that arrives from the peer, or a finished
// handshake, opens the queue. The kernel has no such queue: there, the side that
// waits keeps the endpoint of the other from the kernel, which starts nothing
// without one; datagrams are lost and counted meanwhile, and Dial tries again.
// Sessions end 180 s after their last handshake; the queue then closes again.
//
// Handshakes towards peers out of reach are paced: 64 at once, then 20 a
// second, those tried least first. Peers are configured all at once, because a
// handshake of a peer that is not there yet is thrown away. With one side or
// the other starting, a host of 100 has its mesh in 2 s and one of 500 in a few.
//
// A host whose clock was set back starts handshakes in vain: to its peers they
// look like replays. The wait of the other side covers that as well.
//
// Endpoints: while a peer is out of reach its candidates are tried in turn,
// every 5 s plus up to 1 s, and after the first round slower, as the attempts
// are. The endpoint that the device last learned from the peer is one of them.
// The endpoint of a live peer is never overwritten; Endpoints tells it, for
// others and for the next start.
//
// Change of key: a peer's announced key is a peer of the device without
// addresses. The first handshake with it moves the addresses and removes the
// old key in one step, within 20 ms; so does a Set that names it, but whoever
// is told before the host has changed drops what that still sends. SetKey
// changes the own key: packets wait in the queue from before the change until
// 50 ms after the handshake that each peer must notice. The host that has
// changed starts, whatever the order of keys.
//
// Goroutines: Run is the owner of the device and of all peer state; it ends
// when its context is done or the device stops, and closes the device before
// it returns. The device's own goroutines (wireguard-go, TCP/IP stack, control
// socket of a tun interface) end within that, and all sockets are closed. Set and the socket methods run on their caller's goroutine;
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
