package fakeonion

import (
	"context"
	"strings"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// Address is the onion address that is served.
const Address = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion"

// Backend is the part of the status socket's backend that is about onion
// addresses.
type Backend struct{}

// Onion is a cluster that serves Address from three hosts, of which one is suspect.
func (Backend) Onion(context.Context) (api.Onion, error) {
	return api.Onion{
		Tor: api.OnionTor{Enabled: true, State: "ready", Version: "0.4.9.11", Bootstrap: 100},
		Addresses: []api.OnionAddress{{
			Address: Address, Version: 1, Clients: []string{}, Keepers: []cluster.NodeID{"n1", "n2"}, Key: true, Publisher: "n1", Publishing: true, Term: 7,
			Points: map[cluster.NodeID]int{"n1": 3, "n2": 3},
		}},
		Hosts: []api.OnionHost{
			{Node: "n1", Health: cluster.Alive, Address: Address, Weight: 100, Points: 3, Asked: 4, Healthy: true, Serving: true, Keys: 1},
			{
				Node: "n2", Health: cluster.Alive, Address: Address, Weight: 100, Points: 3,
				LeftOut: "its service is unhealthy, that of another host is not", Backends: []api.OnionBackend{{Name: "127.0.0.1:8080"}, {Name: "unix:/run/app"}},
			},
			{Node: "n3", Health: cluster.Suspect, Address: Address, Points: 3},
		},
		Check:           "answers GET / with status 100 to 499 within 5s",
		OperatorAddress: "opsaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.onion", Operators: []string{"alice", "bob"},
		Problems: []string{},
	}, nil
}

// AddOnion says that Address was added, unless its key is one that was cut off.
func (Backend) AddOnion(_ context.Context, _ string, req api.OnionRequest) (api.OnionChanged, error) {
	if strings.HasPrefix(string(req.KeyFile), "cut off") {
		return api.OnionChanged{}, api.Errorf(api.CodeInvalidRequest, "not a key: secret key file of 60 bytes, need 96")
	}
	return api.OnionChanged{Address: Address, Version: 1}, nil
}

// RemoveOnion knows Address alone.
func (Backend) RemoveOnion(_ context.Context, _, address string) (api.OnionChanged, error) {
	if address != Address {
		return api.OnionChanged{}, api.Errorf(api.CodeInvalidRequest, "not an onion address")
	}
	return api.OnionChanged{Address: address, Version: 3}, nil
}

// SetOnionClients says that they are set.
func (Backend) SetOnionClients(_ context.Context, _, address string, _ api.OnionClientsRequest) (api.OnionChanged, error) {
	return api.OnionChanged{Address: address, Version: 2}, nil
}

// GrantOnion says that node has the key.
func (Backend) GrantOnion(_ context.Context, _, address string, node cluster.NodeID) (api.OnionGranted, error) {
	return api.OnionGranted{Address: address, Node: node}, nil
}

// ExportOnion gives a key that is none.
func (Backend) ExportOnion(_ context.Context, _, address string) (api.OnionKey, error) {
	return api.OnionKey{Address: address, KeyFile: []byte("key")}, nil
}

// VerifyOnion finds the newest descriptor at one of three directories.
func (Backend) VerifyOnion(_ context.Context, address string) (api.OnionVerified, error) {
	return api.OnionVerified{Address: address, Found: 1, Dirs: []api.OnionDirView{{Dir: "AA", Revision: "12", Points: 6}, {Dir: "CC"}, {Dir: "BB", Reason: "NOT_FOUND"}}}, nil
}

// PublishOnion says that n2 does.
func (Backend) PublishOnion(_ context.Context, _, address string) (api.OnionPublished, error) {
	return api.OnionPublished{Address: address, Node: "n2", Term: 7}, nil
}

// DrainOnion says that the host is drained.
func (Backend) DrainOnion(_ context.Context, _ string, req api.OnionDrainRequest) (api.OnionDrained, error) {
	return api.OnionDrained{Node: req.Node, Drained: !req.Undo}, nil
}

// RotateOnion says that the host has another key.
func (Backend) RotateOnion(context.Context, string) (api.OnionRotated, error) {
	return api.OnionRotated{From: Address}, nil
}
