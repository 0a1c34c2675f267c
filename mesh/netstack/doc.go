// Package netstack is a WireGuard device over a TCP/IP stack, both in this
// process. It needs no privilege and no kernel module, but other processes of
// the host cannot use the mesh.
//
// Sockets behave as those of package net: net.ErrClosed after a close,
// os.ErrDeadlineExceeded after a deadline. A connection whose data nobody
// acknowledges fails after about 40 s.
//
// Non-goals: interfaces and routes of the host, which package hostnet has.
//
// Goroutines: those of the stack and of wireguard-go; all end with Close. A
// writer waits until the device has taken its packet.
package netstack
