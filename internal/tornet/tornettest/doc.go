// Package tornettest gives the tests of one binary a private Tor network that
// they share.
//
// The network starts when the first test asks for it and ends with the binary.
// When a test fails its directory stays, with all logs, and the path is printed.
// Get skips a test, through internal/require, where tor is missing. A network
// takes about half a minute, so tests that need one stand together in
// test/onion.
//
// Non-goals: two networks in one binary.
//
//	var network tornettest.Shared
//
//	func TestMain(m *testing.M) { os.Exit(network.Main(m)) }
//
//	func TestServed(t *testing.T) {
//		client := tornettest.Run(t, network.Get(t), "client")
//		conn, err := client.Dial(t.Context(), "user", address+":80")
package tornettest
