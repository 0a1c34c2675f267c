// Package tornet runs a private Tor network out of the machine's own tor
// program: three directory authorities and at least nine relays on loopback,
// with test settings under which a time period lasts four minutes. Nothing of
// it can reach the public network: every tor knows these authorities alone,
// exits nowhere and binds to 127.0.0.1.
//
// A test binary has one network, a Shared that its TestMain runs; every test
// uses its own keys and adds the clients and services it needs, which end with
// the test. Needs tor and tor-gencert: Get skips the test, through
// internal/require, where they are missing. A network takes about half a minute,
// so tests that need one stand together in test/onion.
//
// Order of start: keys and certificates of the authorities, then authorities
// and relays at once, then all are Running in a consensus and all say that
// they are bootstrapped; only then clients and services. Those that start
// earlier back off and take half a minute longer.
//
// Leftovers: every tor is started from one thread that lives as long as the
// network and dies with it by the parent-death signal, however this process
// ends. Directories carry the process id; Start removes those of dead
// processes. When a test fails the directory stays, with all logs, and its
// path is printed; it goes after a day.
//
// Goroutines: the starter, which ends with Close, and one per tor that waits
// for its end. All methods may be called from any goroutine.
//
// Non-goals: exits, bridges, and versions of tor before 0.4.7.
//
//	var network tornet.Shared
//
//	func TestMain(m *testing.M) { os.Exit(network.Main(m)) }
//
//	func TestServed(t *testing.T) {
//		client := network.Get(t).Client(t, "client")
//		conn, err := client.Dial(t.Context(), "user", address+":80")
package tornet
