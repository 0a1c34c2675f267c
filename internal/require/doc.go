// Package require lets a test say what it needs of the machine: namespaces, a
// TUN device, kernel WireGuard, a virtual machine, systemd, tor, promtool, lintian, tmux. What
// is missing skips the test with a one-line reason, or fails it if the
// environment variable REQUIRE names the need, as in REQUIRE=vm,netns. A
// machine that is set up for all tests names all of them, so that none is lost
// in silence.
//
// Non-goals: installing what is missing (`make deps` does), and needs of the
// product itself.
//
// Goroutines: none. Each call looks anew; a look takes a few milliseconds.
//
//	func TestThreeHosts(t *testing.T) {
//		require.Need(t, require.Netns)
package require
