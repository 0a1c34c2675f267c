// Package onion is how a host serves the cluster's onion addresses.
//
// The log says which addresses the cluster serves. Each host has its tor run an
// instance of them under a key of its own, tells the others its share (own
// descriptor, introduction points with a circuit, weight, keys, how its backends
// are), and, for each address whose key it has, keeps a publisher ready. What
// each host has to do is decided by package onion/policy; Host carries it out:
// it feeds the publishers, asks suspected hosts behind their onion, and has tor
// changed when addresses, members or keys do.
//
//   - LocalTor is the host's one tor process, or another's that it attaches to,
//     and the host's own onion service, which only members and newcomers find.
//   - Host is the loop; services, shares and publishers are its parts.
//   - ListenOperators takes what comes to the service that operators find.
//   - Seal and Host.AcceptKey carry the key of an address to another host.
//
// What it needs of membership, coordination and the log are the interfaces
// Cluster and Log. Non-goals: who has the publishing duty (package lease), how
// descriptors are merged and posted (package publisher), what a tor process is
// (package tor), requests of operators (package backend).
//
// Goroutines: LocalTor.Run's caller owns that one and those that send newcomers
// away; they end with its context. Host.Run's caller owns the loop, which starts
// one for the network, one for stray clients, one per watched service, per
// instance that tor is to lose, per publisher and per probe; Run waits for all of
// them. The loop looks every 250 ms and when something wakes it.
//
//	t, err := onion.NewLocalTor(onion.TorOptions{Dir: dir, NodeDir: own})
//	h, err := onion.New(onion.Options{Node: "n1", Tor: t, Log: log, Cluster: cluster})
//	go t.Run(ctx)
//	err = h.Run(ctx)
package onion
