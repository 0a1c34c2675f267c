package present

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// TestPages: what is shown of one thing, as testdata has it.
func TestPages(t *testing.T) {
	var got strings.Builder
	page := func(title string, fields []Field) {
		fmt.Fprintln(&got, title)
		for _, f := range fields {
			fmt.Fprintf(&got, "  %-10s  %s\n", f.Name, f.Text)
		}
	}
	well := api.LeaseSummary{Holder: "n1", Term: 42, Mode: cluster.ModeQuorum, Voters: 3, Profile: "lan", TenureSeconds: new(3600.0), RenewedSeconds: new(1.2), ExpiresSeconds: new(3.8), Publisher: "n1", PublishWhy: api.PublishLease}
	s := api.Status{
		Header: header, Cluster: "blue", State: api.StateOK, Role: cluster.RoleStandby, Term: 42, Lease: well,
		Members: api.MemberCounts{Total: 3, Alive: 3}, Mesh: api.MeshSummary{Backend: "kernel", Interface: "skein0", Address: "10.86.0.2", PeerCount: 2, OldestHandshakeSeconds: new(41.0)},
		Log: api.LogSummary{Events: 1175, Sources: 3, SizeBytes: 4096, CheckedAt: ago(36 * time.Minute), Snapshot: &api.LogSnapshot{Events: 1000, Signers: []cluster.NodeID{"n1", "n2"}}},
	}
	page(Headline(s), Status(s))
	s.State, s.Reasons, s.Lease = api.StateDegraded, []string{"n3 suspect"}, api.LeaseSummary{Publisher: "n2", PublishWhy: api.PublishNoLease, Abstaining: []cluster.NodeID{"n3"}, Blocked: "needs 2 of 3 voters; not heard: n4, n5"}
	s.Log.CheckProblem = "event 512 of n3/1 is damaged"
	s.Members, s.Mesh, s.Log.Snapshot, s.Worker.Draining = api.MemberCounts{Total: 5, Alive: 1, Joining: 1, Suspect: 1, Dead: 2, Stopped: 1}, api.MeshSummary{Backend: "netstack"}, nil, true
	page(Headline(s), Status(s))
	for _, p := range []api.PublishSummary{
		{},
		{State: api.PublishOff},
		{State: api.PublishUnknown},
		{State: api.PublishOK, PublishedAt: ago(12 * time.Minute), By: "n1", NextAt: ago(-48 * time.Minute)},
		{State: api.PublishOK, PublishedAt: ago(72 * time.Minute), By: "n1", NextAt: ago(12 * time.Minute)},
		{State: api.PublishFailing, PublishedAt: ago(2 * time.Hour), By: "n1", FailingSince: ago(5 * time.Minute), Stored: 2, Asked: 8, Reason: "too few directories have it"},
		{State: api.PublishFailing, FailingSince: ago(5 * time.Minute), Reason: "no points"},
	} {
		fmt.Fprintf(&got, "  publish     %s\n", Publish(p, noon))
	}
	page("lease", LeasePage(api.Lease{Header: header, LeaseSummary: well, Ready: new(false), Config: api.LeaseConfig{Epoch: 5, Voters: []cluster.NodeID{"n1", "n2", "n3"}}}))
	page("lease", LeasePage(api.Lease{Header: header, LeaseSummary: api.LeaseSummary{Abstaining: []cluster.NodeID{"n3"}, Blocked: "its disk is full"}}))
	page("peer", Peer(api.Mesh{MTU: 1420, MTUAuto: true}, api.MeshPeer{Node: "n1", State: api.PeerDown, Path: "onion", PathSeconds: new(90.0), Candidates: []string{"192.0.2.1:51820", "192.0.2.2:51820"}, Onion: "abc.onion", NextPublicKey: "bmV3"}))
	for _, h := range []api.OnionHost{
		{Node: "n1", Health: cluster.Alive, Address: "a", Weight: 1, Points: 3, Asked: 3, Healthy: true, Serving: true},
		{Node: "n2", Health: cluster.Alive, Healthy: true},
		{Node: "n3", Health: cluster.Suspect, Address: "a", Weight: 1, LeftOut: "suspected", Backends: []api.OnionBackend{{Name: "web"}, {Name: "api", Healthy: true}}, Reason: "no signature"},
	} {
		fmt.Fprintln(&got, OnionHost(h))
	}
	fmt.Fprintln(&got, Tor(api.OnionTor{}))
	fmt.Fprintln(&got, Tor(api.OnionTor{Enabled: true, Version: "0.4.8", State: "bootstrap", Bootstrap: 45, Restarts: 1, WrongMaster: 2, Reason: "no network"}))
	golden(t, "testdata/pages.txt", got.String())
}
