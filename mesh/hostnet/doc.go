// Package hostnet has the WireGuard devices that are network interfaces of this
// host, and what the mesh needs to know of the host's networks.
//
// OpenKernel drives the kernel's own WireGuard. Its interface, sessions and
// routes stay when the device is closed, and the next OpenKernel takes them over
// if the key is ours, so that traffic of other processes never pauses; Cleanup
// removes them. OpenTUN runs wireguard-go behind an interface that goes away with
// the process. Both need CAP_NET_ADMIN, give the interface the mesh addresses and
// one route for each network, refuse networks that the host already uses, and
// bind their sockets to the interface: a packet with a mesh address that came in
// elsewhere reaches none of them.
//
// The kernel has no queue for peers without a session. Instead, the side that
// waits for the other's handshake keeps the endpoint of that peer from the
// kernel, which starts nothing without one; datagrams are lost and counted
// meanwhile, and Dial tries again. The kernel and wireguard-go's own Bind listen
// on every address of the underlay.
//
// Non-goals: which peers there are and when to look for them.
//
// Goroutines: those of wireguard-go, one that accepts on the control socket of a
// TUN interface and one for each program that talks to it. All end with Close.
package hostnet
