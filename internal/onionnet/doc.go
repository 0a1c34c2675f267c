// Package onionnet puts the packages of the onion service together on a
// private Tor network, without daemons: hosts with a tor and a proxy each, a
// roster in place of the mesh, publishers that are told their duty by hand, and
// clients that count. Tests and the comparison with other programs use it.
//
// Nothing here decides anything: what is proven with it is what the packages
// tor, publisher and proxy do.
//
// Goroutines: a Host has those of its tor, its proxy, its backend and its
// watch, a Publisher those of its publisher and of the feed from its tor; they
// end with Close or Kill. All methods may be called from any goroutine.
//
//	host, err := onionnet.StartHost(ctx, network, onionnet.HostOptions{Name: "a", Dir: dir, Masters: masters})
//	roster := onionnet.NewRoster()
//	host.Feed(roster)
//	pub, err := onionnet.StartPublisher(ctx, onionnet.PublisherOptions{Key: key, Tor: host.Tor, Roster: roster, Term: 1})
//	answer, err := onionnet.Dial(ctx, client, "user", key.Address())
package onionnet
