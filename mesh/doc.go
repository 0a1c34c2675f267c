// Package mesh keeps one WireGuard device equal to a topo.Desired and offers
// sockets inside it: UDP, TCP listeners and TCP connections at mesh
// addresses. Nothing above it opens host sockets for mesh traffic.
//
// Backends: "kernel" and "tun" are interfaces of this host (package hostnet),
// "netstack" is a TCP/IP stack in this process (package netstack). "auto" is the
// kernel's WireGuard or, if the kernel has none, tun; a missing right, a foreign
// interface or a taken port is an error. Netstack is never chosen by itself,
// since other processes of the host cannot use it.
//
// Peers: package reach decides when to start handshakes and which endpoint to
// try. As long as there is no session, packets for a peer wait in a short queue
// (package device). Endpoints returns the endpoints of live peers, for others and
// for the next start.
//
// Change of key: a peer's announced key is a peer of the device without
// addresses. The first handshake with it moves the addresses and removes the
// old key in one step, within 20 ms; so does a Set that names it, but if it comes
// before the host has changed, what that still sends is dropped. SetKey
// changes this host's key: packets wait in the queue from before the change until
// 50 ms after the handshake that each peer must notice. The host that has
// changed starts, whatever the order of keys.
//
// Goroutines: Run is the owner of the device and of all peer state; it ends
// when its context is done or the device stops, and closes the device before
// it returns. The device's own goroutines (wireguard-go, TCP/IP stack, control
// socket of a tun interface) end within that, and all sockets are closed. Set
// and the socket methods run on their caller's goroutine; each waits at most
// until its context is done or Run has ended, Dial at most DialTimeout.
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
//	m, err := mesh.New(mesh.Options{Backend: device.BackendNetstack, PrivateKey: key, Listen: ap})
//	go m.Run(ctx)
//	want, conflicts := topo.Plan(...)
//	err = m.Set(ctx, want)
//	pc, err := m.ListenPacket(ctx, netip.AddrPortFrom(self, 51821))
package mesh
