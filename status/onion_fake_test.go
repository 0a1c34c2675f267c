package status

import (
	"context"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

const fakeOnion = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion"

func (*fake) Onion(context.Context) (api.Onion, error) {
	return api.Onion{
		Tor: api.OnionTor{Enabled: true, State: "ready", Version: "0.4.9.11", Bootstrap: 100},
		Addresses: []api.OnionAddress{{
			Address: fakeOnion, Version: 1, Clients: []string{}, Keepers: []cluster.NodeID{"n1", "n2"}, Key: true, Publishing: true, Term: 7,
			Points: map[cluster.NodeID]int{"n1": 3, "n2": 3},
		}},
		Hosts: []api.OnionHost{
			{Node: "n1", Health: cluster.Alive, Address: fakeOnion, Weight: 100, Points: 3, Healthy: true, Serving: true, Keys: 1},
			{Node: "n3", Health: cluster.Suspect, Address: fakeOnion, Points: 3},
		},
		Problems: []string{},
	}, nil
}

func (*fake) AddOnion(context.Context, string, api.OnionRequest) (api.OnionChanged, error) {
	return api.OnionChanged{Address: fakeOnion, Version: 1}, nil
}

func (*fake) RemoveOnion(_ context.Context, _, address string) (api.OnionChanged, error) {
	if address != fakeOnion {
		return api.OnionChanged{}, api.Errorf(api.CodeInvalidRequest, "not an onion address")
	}
	return api.OnionChanged{Address: address, Version: 3}, nil
}

func (*fake) SetOnionClients(_ context.Context, _, address string, _ api.OnionClientsRequest) (api.OnionChanged, error) {
	return api.OnionChanged{Address: address, Version: 2}, nil
}

func (*fake) GrantOnion(_ context.Context, _, address string, node cluster.NodeID) (api.OnionGranted, error) {
	return api.OnionGranted{Address: address, Node: node}, nil
}

func (*fake) ExportOnion(_ context.Context, _, address string) (api.OnionKey, error) {
	return api.OnionKey{Address: address, KeyFile: []byte("key")}, nil
}

func (*fake) VerifyOnion(_ context.Context, address string) (api.OnionVerified, error) {
	return api.OnionVerified{Address: address, Found: 1, Dirs: []api.OnionDirView{{Dir: "AA", Revision: "12", Points: 6}, {Dir: "BB", Reason: "NOT_FOUND"}}}, nil
}

func (*fake) DrainOnion(_ context.Context, _ string, req api.OnionDrainRequest) (api.OnionDrained, error) {
	return api.OnionDrained{Node: req.Node, Drained: !req.Undo}, nil
}

func (*fake) RotateOnion(context.Context, string) (api.OnionRotated, error) {
	return api.OnionRotated{From: fakeOnion}, nil
}
