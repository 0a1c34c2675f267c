// Package nstest builds small networks out of network namespaces, so that a
// test runs real daemons with real TUN devices on one machine: a bridge in a
// namespace of its own, one namespace per host, a veth pair between them,
// addresses of 192.0.2.0/24 (RFC 5737). Nothing of it shows in the machine's
// own namespace.
//
// A hidden host stands behind a router with address translation.
//
// Every program that runs in a host has a mount namespace of its own in which
// the host's directory lies on /run/wireguard, which is made if missing: two
// hosts may have WireGuard devices of the same name. Loss and black holes are packet filter rules at
// the host's port of the bridge, so they also work where the kernel has no
// netem; a cut is that port set down.
//
// Needs root, ip, nft and /dev/net/tun: New skips the test, through
// internal/require, where they are missing.
//
// Leftovers: the names of namespaces carry the process id of their test run.
// A test's cleanup deletes its own and kills what still runs in them; New also
// sweeps those of runs that died.
//
// Goroutines: one per Capture and one per Pings, each ends with its Stop or
// with the test. Do runs its function on a thread of its own that ends with
// it. A Network and its hosts belong to the test's goroutine, except for Do,
// Dial and Command, which any goroutine may call.
//
// Non-goals: routes between bridges, delay, kernel WireGuard; those run in a virtual
// machine.
//
//	n := nstest.New(t)
//	a, b := n.Host("a"), n.Host("b")
//	a.Exec("ping", "-c1", b.Addr().String())
//	b.Shape(nstest.Shape{Loss: 20})
//	a.Cut()
package nstest
