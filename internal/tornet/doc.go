// Package tornet runs a private Tor network out of the machine's own tor
// program: three directory authorities and at least nine relays on loopback,
// with test settings under which a time period lasts four minutes. Nothing of
// it can reach the public network: every tor knows these authorities alone,
// exits nowhere and binds to 127.0.0.1.
//
// `skein demo --onion` runs one, `make tornet` leaves one running to play with,
// and a test binary has one that its tests share, see package tornettest. Needs
// tor and tor-gencert.
//
// Order of start: keys and certificates of the authorities, then authorities
// and relays at once, then all are Running in a consensus and all say that
// they are bootstrapped; only then clients and services. Those that start
// earlier back off and take half a minute longer.
//
// Leftovers: every tor is started from one thread that lives as long as the
// network and dies with it by the parent-death signal, however this process
// ends. Directories carry the process id; Start removes those of dead
// processes, those that Keep was called for after a day.
//
// Goroutines: the starter, which ends with Close, and one per tor that waits
// for its end. All methods may be called from any goroutine.
//
// Non-goals: exits, bridges, and versions of tor before 0.4.7.
//
//	n, err := tornet.Start(ctx, tornet.Options{})
//	client, err := n.Launch("client")
//	err = client.AwaitBootstrap(ctx)
//	conn, err := client.Dial(ctx, "user", address+":80")
package tornet
