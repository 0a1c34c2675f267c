package present

import (
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// TestOldIsNotNew: no cell shows as of now what was measured before a host fell silent,
// and none calls it up, or dead where it said that it stops.
func TestOldIsNotNew(t *testing.T) {
	trip := new(0.0011)
	members := func(health cluster.Health, stopped, removed bool) Table {
		return Members(api.Members{Members: []api.Member{{Node: "n3", State: health, Stopped: stopped, Removed: removed, RTTSeconds: trip, Path: "direct", Publisher: true, Load: "high"}}})
	}
	hosts := func(health cluster.Health, stopped bool) Table {
		return Hosts(api.Members{Members: []api.Member{{Node: "n3", State: health, Stopped: stopped, RTTSeconds: trip, Path: "direct"}}},
			[]api.Worker{{Node: "n3", Live: health, Slots: 8, Assigned: 2, RatePerSecond: new(1.5e8)}})
	}
	links := func(health cluster.Health, stopped bool) Table {
		return Links(api.Links{Links: []api.Link{{From: "n1", To: "n3", State: health, Stopped: stopped, RTTSeconds: trip, Path: "direct"}}})
	}
	voters := func(health cluster.Health, stopped bool) Table {
		return Voters(api.Voters{Voters: []api.Voter{{Node: "n3", State: health, Stopped: stopped}}})
	}
	peer := func(state api.PeerState, stopped bool) api.MeshPeer {
		return api.MeshPeer{Node: "n3", State: state, Path: "direct", Stopped: stopped, RTTSeconds: trip, HandshakeSeconds: new(8.0)}
	}
	peers := func(state api.PeerState, stopped bool) Table {
		return Peers(api.Mesh{Peers: []api.MeshPeer{peer(state, stopped)}})
	}
	workers := func(w api.Worker) Table { return Workers(api.Workers{Workers: []api.Worker{w}}) }
	for _, c := range []struct {
		what         string
		table        Table
		column, want string
	}{
		{"alive member", members(cluster.Alive, false, false), "RTT", "1.1ms"},
		{"joining member", members(cluster.Joining, false, false), "RTT", "1.1ms"},
		{"alive member", members(cluster.Alive, false, false), "PATH", "direct"},
		{"suspect member", members(cluster.Suspect, false, false), "RTT", "-"},
		{"suspect member", members(cluster.Suspect, false, false), "PATH", "-"},
		{"alive member", members(cluster.Alive, false, false), "PUBLISHER", "yes"},
		{"alive member", members(cluster.Alive, false, false), "LOAD", "high"},
		{"suspect member", members(cluster.Suspect, false, false), "PUBLISHER", "-"},
		{"suspect member", members(cluster.Suspect, false, false), "LOAD", "-"},
		{"dead member", members(cluster.Dead, false, false), "RTT", "-"},
		{"dead member", members(cluster.Dead, false, false), "STATE", "dead"},
		{"stopped member", members(cluster.Dead, true, false), "RTT", "-"},
		{"stopped member", members(cluster.Dead, true, false), "STATE", "stopped"},
		{"member that left", members(cluster.Left, false, false), "RTT", "-"},
		{"removed member", members(cluster.Left, false, true), "STATE", "removed"},
		{"alive host", hosts(cluster.Alive, false), "RTT", "1.1ms"},
		{"alive host", hosts(cluster.Alive, false), "PATH", "direct"},
		{"alive host", hosts(cluster.Alive, false), "SLOTS", "2/8"},
		{"alive host", hosts(cluster.Alive, false), "RATE", "150M/s"},
		{"suspect host", hosts(cluster.Suspect, false), "RTT", "-"},
		{"suspect host", hosts(cluster.Suspect, false), "PATH", "-"},
		{"suspect host", hosts(cluster.Suspect, false), "SLOTS", "2/8"}, // what the holder counts
		{"suspect host", hosts(cluster.Suspect, false), "RATE", "150M/s"},
		{"dead host", hosts(cluster.Dead, false), "SLOTS", "-"},
		{"host that has not told its slots", Hosts(api.Members{Members: []api.Member{{Node: "n3", State: cluster.Suspect}}}, []api.Worker{{Node: "n3", Assigned: 2}}), "SLOTS", "-"},
		{"dead host", hosts(cluster.Dead, false), "RATE", "-"},
		{"dead host", hosts(cluster.Dead, false), "RTT", "-"},
		{"stopped host", hosts(cluster.Dead, true), "STATE", "stopped"},
		{"link to an alive host", links(cluster.Alive, false), "RTT", "1.1ms"},
		{"link to an alive host", links(cluster.Alive, false), "PATH", "direct"},
		{"link to a suspect host", links(cluster.Suspect, false), "RTT", "-"},
		{"link to a suspect host", links(cluster.Suspect, false), "PATH", "-"},
		{"link to a dead host", links(cluster.Dead, false), "RTT", "-"},
		{"link of which nothing is known", links("unknown", false), "RTT", "-"},
		{"link to a stopped host", links(cluster.Dead, true), "STATE", "stopped"},
		{"alive voter", voters(cluster.Alive, false), "STATE", "alive"},
		{"stopped voter", voters(cluster.Dead, true), "STATE", "stopped"},
		{"peer", peers(api.PeerUp, false), "STATE", "up"},
		{"peer", peers(api.PeerUp, false), "RTT", "1.1ms"},
		{"peer reached behind its onion", peers(api.PeerDown, false), "RTT", "1.1ms"},
		{"silent peer", peers(api.PeerSilent, false), "STATE", "silent"},
		{"peer", peers(api.PeerUp, false), "PATH", "direct"},
		{"silent peer", peers(api.PeerSilent, false), "RTT", "-"},
		{"silent peer", peers(api.PeerSilent, false), "PATH", "-"},
		{"silent peer", peers(api.PeerSilent, false), "HANDSHAKE", "8.0s"},
		{"stopped peer", peers(api.PeerSilent, true), "STATE", "stopped"},
		{"peer that stopped just now", peers(api.PeerUp, true), "STATE", "stopped"},
		{"peer that stopped just now", peers(api.PeerUp, true), "RTT", "-"},
		{"idle worker", workers(api.Worker{Node: "n3"}), "DRAIN", "-"},
		{"busy worker", workers(api.Worker{Node: "n3", Assigned: 1, DrainSeconds: 7.5}), "DRAIN", "7.5s"},
		{"worker of a dead host", workers(api.Worker{Node: "n3", Live: cluster.Dead}), "LIVE", "dead"},
		{"worker of a stopped host", workers(api.Worker{Node: "n3", Live: cluster.Dead, Stopped: true}), "LIVE", "stopped"},
	} {
		for i, col := range c.table.Columns {
			if col.Name != c.column {
				continue
			}
			for _, f := range []Form{FormTable, FormWide} {
				if got := c.table.Rows[0][i].In(f); got != c.want {
					t.Errorf("%s: %s %q, want %q", c.what, c.column, got, c.want)
				}
			}
			if plain := c.table.Rows[0][i].In(FormPlain); c.want == Unknown && plain != Unknown {
				t.Errorf("%s: %s is %q for programs", c.what, c.column, plain)
			}
			c.column = ""
		}
		if c.column != "" {
			t.Errorf("%s: no column %s", c.what, c.column)
		}
	}
	for want, p := range map[string]api.MeshPeer{"up 1.1ms": peer(api.PeerUp, false), "silent -": peer(api.PeerSilent, false), "stopped -": peer(api.PeerSilent, true)} {
		got := map[string]string{}
		for _, f := range Peer(api.Mesh{}, p) {
			got[f.Name] = f.Text
		}
		if got["state"]+" "+got["rtt"] != want {
			t.Errorf("page of a peer: %s %s, want %s", got["state"], got["rtt"], want)
		}
	}
}
