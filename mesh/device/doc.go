// Package device says what a WireGuard device is to its owner, and holds the one
// that runs in this process: wireguard-go with an underlay of UDP sockets and a
// gate that keeps packets for peers without a session. Packages netstack and
// hostnet put it behind a TCP/IP stack or a TUN interface; hostnet also drives
// the kernel's.
//
// The gate keeps up to 16 packets for each peer without a session, so that data
// never starts a handshake out of turn. When the queue is full the oldest packet
// is dropped and counted. A packet from the peer, or Hold with on false, opens
// the queue.
//
// Non-goals: addresses, routes, sockets, when to try which peer.
//
// Goroutines: those of wireguard-go, which end with Close. Apart from HintNow,
// the methods of a Device are called by its owner only.
package device
