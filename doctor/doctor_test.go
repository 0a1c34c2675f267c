package doctor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/eventlog/stamps"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/internal/statetest"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/onion"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
	"github.com/skein-project/skein/tor"
)

// healthy are the facts of n1 in a cluster of three where all is well.
func healthy(t *testing.T) Cluster {
	t.Helper()
	timing, err := lease.TimingFor(cluster.ProfileLAN)
	if err != nil {
		t.Fatal(err)
	}
	wall := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	v := &coord.View{Self: "n1", At: time.Hour, Clock: coord.Clock{Peers: 2, Offset: 20 * time.Millisecond}}
	v.Lease.Holder, v.Lease.Term, v.Lease.Until = "n1", 7, time.Hour+time.Second
	v.Publisher, v.Lease.Publisher, v.Lease.PublishWhy = "n1", "n1", lease.PublishByLease
	v.Lease.Config = cluster.VoterConfig{Epoch: 1, Voters: []cluster.NodeID{"n1", "n2", "n3"}, Mode: cluster.ModeQuorum}
	f := Cluster{View: v, Wall: wall, MTU: 1420, Timing: timing, Tolerance: 5 * time.Second, Daemon: Daemon{Version: "0.4.0", Uptime: time.Hour}, Profile: cluster.ProfileLAN}
	f.Onion = served("n1", "n2")
	for _, n := range []cluster.NodeID{"n1", "n2", "n3"} {
		m := coord.MemberView{Health: cluster.Alive, Heard: true, LastHeard: time.Hour - time.Second, RTT: time.Millisecond, Answered: true, Version: "0.4.0"}
		m.Node, m.Caps, m.Profile = n, []string{member.CapSponsor}, f.Profile
		v.Members = append(v.Members, m)
		if n != "n1" {
			f.Peers = append(f.Peers, mesh.PeerStatus{Node: n, LastHandshake: wall, Live: true, Reachable: true})
		}
	}
	f.LogCheck = &api.LogCheck{EndedAt: new(wall.Add(-time.Minute)), Result: &api.LogVerify{OK: true, Events: 7}}
	return f
}

// served is an onion address whose key these hosts have.
func served(keepers ...cluster.NodeID) Onion {
	key := descriptor.NewSecretKey([32]byte{1}).Address()
	return Onion{Enabled: true, Tor: tor.Status{State: tor.StateReady, Version: "0.4.9.11"}, Status: onion.Status{
		Addresses: []onion.AddressStatus{{Onion: state.Onion{Key: key}, Keepers: keepers, PublishedBy: "n1"}},
	}}
}

// voting makes these the voters, of whom n1 is one.
func voting(f *Cluster, mode cluster.Mode, voters ...cluster.NodeID) {
	f.View.Lease.Config.Voters, f.View.Lease.Config.Mode = voters, mode
}

// TestJudgeLeaseOfOthers: who differs by its profile is told so, and not to
// look for what keeps voters from standing.
func TestJudgeLeaseOfOthers(t *testing.T) {
	f := healthy(t)
	f.View.Lease.Holder = ""
	f.View.Members[2].Profile, f.View.Members[2].Incompatible = cluster.ProfileFast, "has profile fast"
	if v := judgeLease(f); v.v != api.VerdictFail || !strings.Contains(v.detail, "no lease is visible here") || !strings.Contains(v.hint, "lease-profile") {
		t.Errorf("%+v", v)
	}
}

// Of several silent hosts the hint names each, and of very many some.
func TestAdviceOnPeers(t *testing.T) {
	f := healthy(t)
	f.View.Members[2].LastHeard = time.Minute
	f.Peers[0].LastHandshake = time.Time{}
	f.View.Members = append(f.View.Members, f.View.Members[2])
	f.View.Members[3].Node = "n4"
	f.Peers = append(f.Peers, f.Peers[1])
	f.Peers[2].Node = "n4"
	if v := judgePeers(f); !strings.Contains(v.hint, "`skein remove n3`, `skein remove n4`") || !strings.Contains(v.hint, "`skein mesh n2`") {
		t.Errorf("%+v", v)
	}
	if many := adviceOnPeers(nil, nil, nil, strings.Split("a b c d e f g h i j", " ")); !strings.Contains(many, "`skein remove h`, and 2 more") {
		t.Error(many)
	}
}

// fast gives all hosts profile fast.
func fast(f *Cluster) {
	f.Profile = cluster.ProfileFast
	for i := range f.View.Members {
		f.View.Members[i].Profile = cluster.ProfileFast
	}
}

// TestJudges changes one fact at a time and looks which check notices.
func TestJudges(t *testing.T) {
	month := int64(30 * 24 * 3600)
	// What the status calls suspect or dead both checks see.
	both := map[string]string{
		"a zone is lost": "lease-margin peers-both-ways", "most of a zone is lost": "peers-both-ways", "suspect, and silent for a moment": "lease-margin", "no majority": "peers-both-ways", "bare majority": "peers-both-ways",
	}
	for _, tc := range []struct {
		name   string
		change func(*Cluster)
		check  string // that notices; empty: none does
		want   api.Verdict
		text   string
	}{
		{"all well", func(*Cluster) {}, "", api.VerdictOK, ""},
		{"suspect, and silent for a moment", func(f *Cluster) { f.View.Members[2].Health = cluster.Suspect }, "peers-both-ways", api.VerdictWarn, "n3 is silent"},
		{"never reached", func(f *Cluster) { f.Peers[0].LastHandshake = time.Time{} }, "peers-both-ways", api.VerdictWarn, "n2 was never reached"},
		{"silent", func(f *Cluster) { f.View.Members[2].LastHeard = time.Minute }, "peers-both-ways", api.VerdictWarn, "n3 is silent"},
		{"one way", func(f *Cluster) { f.View.Members[2].Answered = false }, "peers-both-ways", api.VerdictWarn, "n3 is heard, and does not answer"},
		{"no peer", func(f *Cluster) { f.Peers = f.Peers[:1] }, "peers-both-ways", api.VerdictWarn, "n3 is no peer"},
		{"two silent", func(f *Cluster) { f.View.Members[1].Heard, f.View.Members[2].Heard = false, false }, "peers-both-ways", api.VerdictWarn, perhapsRemoved},
		{"two silent since lately", func(f *Cluster) { f.View.Members[1].LastHeard, f.View.Members[2].LastHeard = 0, time.Minute }, "peers-both-ways", api.VerdictWarn, "n2 is silent; n3 is silent"},
		{"never heard, just started", func(f *Cluster) {
			f.Uptime, f.View.Members[1].Heard, f.View.Members[2].Heard = aloneTime, false, false
		}, "peers-both-ways", api.VerdictWarn, "n2 is silent; n3 is silent"},
		{"one never heard", func(f *Cluster) { f.View.Members[1].Heard = false }, "peers-both-ways", api.VerdictWarn, "n2 is silent"},
		{"one key at two places", func(f *Cluster) {
			f.View.Members[1].Flaps = []netip.AddrPort{netip.MustParseAddrPort("192.0.2.2:51820"), netip.MustParseAddrPort("198.51.100.9:4000")}
		}, "endpoints", api.VerdictWarn, "n2 is seen at 192.0.2.2:51820 and at 198.51.100.9:4000 in turn"},
		{"black hole", func(f *Cluster) { f.View.Members[1].PathMTU = 1320 }, "mtu", api.VerdictWarn, "n2 gets packets of 1320 bytes only"},
		{"own clock", func(f *Cluster) { f.View.Clock.Offset = -3 * time.Minute }, "clock-sync", api.VerdictFail, "3m0s away"},
		{"own clock a little", func(f *Cluster) { f.View.Clock.Offset = 3 * time.Second }, "clock-sync", api.VerdictWarn, "3s away"},
		{"their clock", func(f *Cluster) { f.View.Members[2].Skew = 4 * time.Minute }, "clock-sync", api.VerdictWarn, "the clock of n3 is 4m0s off"},
		{"jump", func(f *Cluster) { f.View.Clock.JumpedAt = f.View.At - time.Minute }, "clock-sync", api.VerdictWarn, "jumped"},
		{"one sponsor", func(f *Cluster) { f.View.Members[1].Caps, f.View.Members[2].Caps = nil, nil }, "sponsors", api.VerdictWarn, "1: n1"},
		{"two sponsors", func(f *Cluster) { f.View.Members[1].Caps = nil }, "", api.VerdictOK, ""},
		{"root key", func(f *Cluster) { f.RootKey = true }, "root-key", api.VerdictWarn, "lies on this host"},
		{"own certificate", func(f *Cluster) { f.View.Members[0].CertExpires = f.Wall.Unix() - 3600 }, "cert-expiry", api.VerdictFail, "expired 1h0m0s ago"},
		{"other certificate", func(f *Cluster) { f.View.Members[1].CertExpires = f.Wall.Unix() - month }, "cert-expiry", api.VerdictWarn, "n2 expired 30 days ago"},
		{"not renewed", func(f *Cluster) { f.View.Members[1].CertExpires = f.Wall.Unix() + month/10 }, "cert-expiry", api.VerdictWarn, "ends in 3 days"},
		{"fresh", func(f *Cluster) { f.View.Members[1].CertExpires = f.Wall.Unix() + month }, "", api.VerdictOK, ""},
		{"no holder", func(f *Cluster) { f.View.Lease.Holder = "" }, "lease-margin", api.VerdictFail, "although 3 of 3"},
		{"renewals do not come", func(f *Cluster) {
			f.View.Lease.Holder, f.View.Lease.Until = "n2", 0
		}, "lease-margin", api.VerdictWarn, "n2 says that it holds term 7"},
		{"no majority", func(f *Cluster) {
			f.View.Lease.Holder, f.View.Members[1].Health, f.View.Members[2].Health = "", cluster.Dead, cluster.Suspect
		}, "lease-margin", api.VerdictFail, "1 of 3 voters are alive, 2 must be"},
		{"available", func(f *Cluster) {
			f.View.Lease.Config.Mode, f.View.Members[2].Health = cluster.ModeAvailable, cluster.Dead
		}, "peers-both-ways", api.VerdictWarn, "n3 is silent"},
		{"two in quorum", func(f *Cluster) { voting(f, cluster.ModeQuorum, "n1", "n2") }, "voters", api.VerdictWarn, "two voters in mode quorum"},
		{"two that go on alone", func(f *Cluster) { voting(f, cluster.ModeAvailable, "n1", "n2") }, "", api.VerdictOK, ""},
		{"four", func(f *Cluster) {
			f.View.Members = append(f.View.Members, f.View.Members[2])
			f.View.Members[3].Node = "n4"
			f.Peers = append(f.Peers, f.Peers[1])
			f.Peers[2].Node = "n4"
			voting(f, cluster.ModeQuorum, "n1", "n2", "n3", "n4")
		}, "voters", api.VerdictWarn, "4 voters bear the loss of 1, as 3 would"},
		{"voter that left", func(f *Cluster) { voting(f, cluster.ModeAvailable, "n1", "n2", "n3", "n9") }, "voters", api.VerdictWarn, "n9 votes and is no longer a member"},
		{"fewer than wanted", func(f *Cluster) {
			voting(f, cluster.ModeSingle, "n1")
			f.View.Lease.Target = []cluster.NodeID{"n1", "n2", "n3"}
		}, "voters", api.VerdictWarn, "3 voters are wanted, 1 so far"},
		{"one zone", func(f *Cluster) {
			for i := range f.View.Members {
				f.View.Members[i].Zone = "east"
			}
		}, "voters", api.VerdictWarn, "all voters are in zone east"},
		{"a zone is lost", func(f *Cluster) {
			f.View.Members[0].Zone, f.View.Members[2].Zone, f.View.Members[2].Health = "east", "west", cluster.Suspect
		}, "zones", api.VerdictWarn, "zone west: none of 1 hosts is alive"},
		{"most of a zone is lost", func(f *Cluster) {
			for i := range f.View.Members {
				f.View.Members[i].Zone = "east"
			}
			f.View.Lease.Config.Voters = f.View.Lease.Config.Voters[:1]
			f.View.Members[1].Health, f.View.Members[2].Health = cluster.Dead, cluster.Dead
		}, "zones", api.VerdictWarn, "zone east: 1 of 3 hosts alive"},
		{"voters far apart", func(f *Cluster) { fast(f); f.View.Members[1].RTT = 151 * time.Millisecond }, "zones", api.VerdictFail, "n2, which votes too, is 151ms away"},
		{"voters just near enough", func(f *Cluster) { fast(f); f.View.Members[1].RTT = 150 * time.Millisecond }, "", api.VerdictOK, ""},
		{"no zones", func(f *Cluster) { f.View.Members[0].Zone = "east" }, "", api.VerdictOK, ""},
		{"overloaded", func(f *Cluster) {
			f.Overload = api.Overload{Level: "severe", Signal: "cpu", Lanes: []api.OverloadLane{{Lane: "submit", Refuses: true}, {Lane: "assign"}, {Lane: "list", Refuses: true}}}
		}, "overload", api.VerdictWarn, "this host is severe by cpu and refuses submit, list"},
		{"another is overloaded", func(f *Cluster) {
			f.Overload = api.Overload{Level: "elevated", Hosts: []api.LoadedHost{{Node: "n1", Level: "elevated"}, {Node: "n2", Level: "critical"}, {Node: "n3", Level: "elevated"}}}
		}, "overload", api.VerdictWarn, "overloaded: n2 critical"},
		{"one is silent", func(f *Cluster) {
			f.Overload = api.Overload{Level: "normal", Silent: []api.SilentHost{{Node: "n2", Kind: "blob"}, {Node: "n2", Kind: "watch"}, {Node: "n9", Kind: "blob"}}}
		}, "overload", api.VerdictWarn, "alive, and does not answer: n2"},
		{"full of work", func(f *Cluster) { f.Overload = api.Overload{Level: "elevated", Signal: "cpu"} }, "", api.VerdictOK, ""},
		{"this host abstains", func(f *Cluster) { f.View.Lease.Abstaining = "vote record missing" }, "voters", api.VerdictWarn, "n1 abstains: vote record missing"},
		{"another abstains", func(f *Cluster) {
			f.View.Lease.Acks = []lease.VoterStatus{{Node: "n1"}, {Node: "n3", Abstaining: true}}
		}, "voters", api.VerdictWarn, "n3 abstains"},
		{"no publisher", func(f *Cluster) { f.View.Publisher = "" }, "publisher", api.VerdictWarn, "nobody is known to publish"},
		{"publishes without a lease", func(f *Cluster) { f.View.Lease.PublishWhy = lease.PublishByRule }, "publisher", api.VerdictWarn, "no lease is visible"},
		{"two publish", func(f *Cluster) { f.View.Members[2].Publishing = true }, "publisher", api.VerdictWarn, "n3 publishes beside n1"},
		{"clone", func(f *Cluster) { f.View.Members[2].Duplicate = true }, "identity", api.VerdictFail, "identity of n3"},
		{"unwell", func(f *Cluster) { f.View.LocalHealth = doubtful }, "local-health", api.VerdictWarn, "3 of 8"},
		{"own clone", func(f *Cluster) { f.View.Members[0].Duplicate = true }, "identity", api.VerdictFail, "identity of this host"},
		{"bare majority", func(f *Cluster) { f.View.Members[2].Health = cluster.Dead }, "lease-margin", api.VerdictWarn, "2 of 3 voters"},
		{"slow", func(f *Cluster) { f.View.Members[1].RTT, f.View.Members[2].RTT = 2*time.Second, 3*time.Second }, "lease-margin", api.VerdictWarn, "takes 2s"},
		{"one slow", func(f *Cluster) { f.View.Members[2].RTT = 3 * time.Second }, "", api.VerdictOK, ""},
		{"versions", func(f *Cluster) { f.View.Members[2].Version = "0.3.9" }, "version-skew", api.VerdictWarn, "n3 runs 0.3.9"},
		{"incompatible", func(f *Cluster) { f.View.Members[2].Incompatible = "speaks version 9" }, "version-skew", api.VerdictFail, "speaks version 9"},
		{"profiles", func(f *Cluster) {
			f.View.Members[2].Profile, f.View.Members[2].Incompatible = cluster.ProfileFast, "has profile fast"
		}, "lease-profile", api.VerdictFail, "lease.profile lan here and on 2 hosts in all, another on n3 (fast)"},
		{"own profile", func(f *Cluster) {
			for i := range f.View.Members[1:] {
				f.View.Members[i+1].Profile, f.View.Members[i+1].Incompatible = cluster.ProfileFast, "has profile fast"
			}
		}, "lease-profile", api.VerdictFail, "this host has lease.profile lan, others have another: n2 (fast), n3 (fast)"},
		{"evidence", func(f *Cluster) {
			f.Evidence = []member.Evidence{{Node: "n3"}, {Node: "n2"}, {Node: "n3"}}
		}, "evidence", api.VerdictWarn, "[n2 n3]"},
		{"fork", func(f *Cluster) {
			f.Chains.Forks = []wire.Fork{{Source: event.SourceID{Node: "n3", Inc: 2}, Seq: 57}}
		}, "log-forks", api.VerdictWarn, "n3 signed two histories of its chain n3/2, from event 57 on"},
		{"chain ahead", func(f *Cluster) {
			f.Chains.Ahead = []stamps.Chain{{Source: event.SourceID{Node: "n3", Inc: 1}, Seq: 4, Ahead: 2 * time.Hour}}
		}, "log-ahead", api.VerdictWarn, "chain n3/1 is 2h0m0s ahead of the clocks: its events are refused"},
		{"own chain ahead", func(f *Cluster) {
			f.Chains.Ahead = []stamps.Chain{{Source: event.SourceID{Node: "n1", Inc: 1}, Seq: 4, Ahead: 2 * time.Hour, Own: true}}
		}, "log-ahead", api.VerdictFail, "its chain n1/1 is 2h0m0s ahead of the clocks: the other hosts refuse its events"},
		{"snapshot failed", func(f *Cluster) {
			f.Snapshots.Trouble = "take: 1 of 3 voters signed"
		}, "log-snapshots", api.VerdictWarn, "the last snapshot failed: take: 1 of 3"},
		{"snapshot overdue", func(f *Cluster) {
			f.Snapshots.Every, f.Snapshots.Since = 100, 301
		}, "log-snapshots", api.VerdictWarn, "301 events since the last snapshot"},
		{"below a snapshot", func(f *Cluster) {
			f.Snapshots.RefusedEvents = 1
			f.Snapshots.Refused = []state.Refusal{{Source: event.SourceID{Node: "n3", Inc: 2}, Seq: 57, Kind: event.KindTermStart, Reason: "r"}}
		}, "log-snapshots", api.VerdictFail, "the last term_start of n3/2, event 57: r"},
		{"snapshot differs", func(f *Cluster) {
			f.Snapshots.Mismatch = "state ab"
		}, "log-snapshots", api.VerdictFail, "to another state than others"},
		{"job without a worker", func(f *Cluster) {
			f.Starved = []StarvedJob{{ID: "j1", Why: "0 of 3 workers eligible: n1, n2: not in zone mars; n3: draining"}}
		}, "jobs", api.VerdictWarn, "job j1 waits: 0 of 3 workers eligible: n1, n2: not in zone mars; n3: draining"},
		{"jobs without a worker", func(f *Cluster) { f.Starved = make([]StarvedJob, 2) }, "jobs", api.VerdictWarn, "2 jobs wait"},
		{"groups that wait", func(f *Cluster) {
			f.Groups = []WaitingGroup{{Name: "a", Left: 1, From: "jobs.groups_url"}, {Name: "b", From: "jobs.groups_file"}}
		}, "groups", api.VerdictWarn, "more than half of the members would leave: a (1 left, jobs.groups_url), b (0 left, jobs.groups_file)"},
		{"log never checked", func(f *Cluster) { f.LogCheck = nil }, "log-verify", api.VerdictSkip, "not checked since the start"},
		{"log check broke off", func(f *Cluster) { f.LogCheck.Error = "deadline" }, "log-verify", api.VerdictWarn, "broke off: deadline"},
		{"log damaged", func(f *Cluster) {
			f.LogCheck.Result = &api.LogVerify{Problem: "segment x: checksum", Hint: "fetch it again"}
		}, "log-verify", api.VerdictFail, "segment x: checksum"},
		{"tor on its way", func(f *Cluster) { f.Onion.Tor = tor.Status{State: tor.StateBootstrap, Bootstrap: 45} }, "tor", api.VerdictWarn, "tor has come to 45 %"},
		{"no tor program", func(f *Cluster) { f.Onion.Tor = tor.Status{State: tor.StateFaulty, Err: "not found"} }, "tor", api.VerdictFail, "tor is faulty: not found"},
		{"target of a host", func(f *Cluster) {
			f.Onion.Hosts = map[cluster.NodeID]onion.HostStatus{"n2": {Placed: true, Failing: true, Reserve: true}}
		}, "onion-hosts", api.VerdictWarn, "onion target of n2 unhealthy (its points are left out)"},
		{"one has the key", func(f *Cluster) { f.Onion = served("n2") }, "onion-keys", api.VerdictWarn, ".onion: n2"},
		{"nobody has the key", func(f *Cluster) { f.Onion = served() }, "onion-keys", api.VerdictFail, "no host that is alive has the key of"},
		{"key that cannot be read", func(f *Cluster) { f.Onion.Problems = []string{"key x: mode 0644"} }, "onion-keys", api.VerdictWarn, "key x: mode 0644"},
		{"nobody publishes", func(f *Cluster) { f.Onion.Addresses[0].PublishedBy = "" }, "onion-publisher", api.VerdictWarn, "nobody is known to publish"},
		{"somebody else publishes", func(f *Cluster) {
			f.Onion.Addresses[0].Publisher = &publisher.Status{Foreign: f.Wall.Add(-time.Minute)}
		}, "onion-publisher", api.VerdictFail, "somebody else published "},
		{"somebody else did long ago", func(f *Cluster) {
			f.Onion.Addresses[0].Publisher = &publisher.Status{Foreign: f.Wall.Add(-48 * time.Hour)}
		}, "", api.VerdictOK, ""},
		{"fenced", func(f *Cluster) {
			f.Onion.Addresses[0].Publisher = &publisher.Status{Publishing: true, Fenced: true}
		}, "onion-publisher", api.VerdictWarn, "has a later term"},
		{"not found anywhere", func(f *Cluster) {
			f.Onion.Addresses[0].Publisher = &publisher.Status{Publishing: true}
		}, "onion-publisher", api.VerdictWarn, "no directory has shown it yet"},
		{"state is not what the log says", func(f *Cluster) { f.LogCheck.LiveStateHash = &cluster.Hash{1} }, "log-verify", api.VerdictFail, "state is not what its log says"},
	} {
		f := healthy(t)
		tc.change(&f)
		found := run(t.Context(), clusterChecks(f, func() verdict { return good("kept right") }))
		for _, one := range found {
			want := api.VerdictOK
			if one.Check == tc.check {
				want = tc.want
				if !strings.Contains(one.Detail, tc.text) {
					t.Errorf("%s: %s says %q, not %q", tc.name, one.Check, one.Detail, tc.text)
				}
			}
			if slices.Contains(strings.Fields(both[tc.name]), one.Check) {
				want = api.VerdictWarn
			}
			if one.Verdict != want {
				t.Errorf("%s: %s is %s (%s), want %s", tc.name, one.Check, one.Verdict, one.Detail, want)
			}
			if bad := one.Verdict == api.VerdictWarn || one.Verdict == api.VerdictFail; bad != (one.Hint != "") {
				t.Errorf("%s: %s is %s with hint %q", tc.name, one.Check, one.Verdict, one.Hint)
			}
		}
	}
	// What is well is so in every profile.
	for _, p := range []cluster.Profile{cluster.ProfileClassic, cluster.ProfileLAN, cluster.ProfileFast} {
		f := healthy(t)
		var err error
		if f.Timing, err = lease.TimingFor(p); err != nil {
			t.Fatal(err)
		}
		f.View.Members[1].LastHeard = f.View.At - 2*f.Timing.Heartbeat
		for _, one := range run(t.Context(), clusterChecks(f, func() verdict { return good("kept right") })) {
			if one.Verdict != api.VerdictOK {
				t.Errorf("%s: %+v", p, one)
			}
		}
	}
	// What needs time is not judged just after a start.
	f := healthy(t)
	f.Uptime, f.View.Lease.Holder, f.View.Publisher, f.View.Members[1].Heard = time.Second, "", "", false
	for _, one := range run(t.Context(), clusterChecks(f, func() verdict { return good("kept right") })) {
		late := one.Check == "lease-margin" || one.Check == "peers-both-ways" || one.Check == "publisher"
		if late != (one.Verdict == api.VerdictSkip) || late != strings.HasPrefix(one.Detail, "just started: ") {
			t.Errorf("just started: %+v", one)
		}
	}
	// A host alone has nobody to judge by.
	f = healthy(t)
	f.View.Members, f.Peers, f.View.Clock = f.View.Members[:1], nil, coord.Clock{}
	if v := judgePeers(f); v.v != api.VerdictSkip {
		t.Errorf("alone: %+v", v)
	}
	if v := judgeClock(f, skipped("not allowed")); v.v != api.VerdictSkip {
		t.Errorf("clock alone: %+v", v)
	}
}

// TestStoppedIsNotCutOff: hosts that said that they stop are no sign of a cut, not
// even when they are all others.
func TestStoppedIsNotCutOff(t *testing.T) {
	f := healthy(t)
	for i := range f.View.Members[1:] {
		m := &f.View.Members[i+1]
		m.Health, m.Stopped, m.LastHeard = cluster.Dead, true, f.View.At-time.Minute
	}
	if v := judgePeers(f); v.v != api.VerdictWarn || v.detail != "n2 was stopped; n3 was stopped" || strings.Contains(v.hint, "network") || !strings.Contains(v.hint, "`skein remove n2`") {
		t.Errorf("%+v", v)
	}
	f.View.Members[2].Stopped = false
	if v := judgePeers(f); v.detail != "n2 was stopped; n3 is silent" || !strings.Contains(v.hint, "nobody is heard") {
		t.Errorf("%+v", v)
	}
}

// TestCutOffIsNotLost: a host that no longer hears the others is told of the network
// and of their life behind a cut before it is told to give them up.
func TestCutOffIsNotLost(t *testing.T) {
	f := healthy(t)
	f.View.Lease.Holder = ""
	for i, ago := range []time.Duration{40 * time.Second, 41 * time.Second} {
		m := &f.View.Members[i+1]
		m.Health, m.LastHeard = cluster.Suspect, f.View.At-ago
	}
	v := judgeLease(f)
	const detail = "nobody holds the lease: 1 of 3 voters are alive, 2 must be; n2 not heard for 40s; n3 not heard for 41s"
	cut, network, recovery := strings.Index(v.hint, "n2 and n3 may live behind a cut"), strings.Index(v.hint, "skein mesh n2"), strings.Index(v.hint, "lost for good: `skein lease recover`")
	if v.v != api.VerdictFail || v.detail != detail || cut != 0 || network < cut || recovery < network {
		t.Errorf("%+v", v)
	}
	if v := judgePeers(f); v.v != api.VerdictWarn || !strings.Contains(v.hint, "nobody is heard: is the network of this host up") {
		t.Errorf("%+v", v)
	}
	f.View.Members[1].Heard = false
	f.View.Lease.Config.Voters = []cluster.NodeID{"n1", "n2", "n9"}
	if v := judgeLease(f); !strings.HasSuffix(v.detail, "; n2 not heard since the start; n9 is no longer a member") {
		t.Errorf("%+v", v)
	}
}

// TestFirstHost: what only means that no other host has joined yet is no warning.
func TestFirstHost(t *testing.T) {
	f := healthy(t)
	voting(&f, cluster.ModeSingle, "n1")
	f.RootKey, f.View.Members, f.Peers, f.View.Clock = true, f.View.Members[:1], nil, coord.Clock{}
	for _, one := range run(t.Context(), clusterChecks(f, func() verdict { return good("kept right") })) {
		if one.Verdict == api.VerdictWarn || one.Verdict == api.VerdictFail {
			t.Errorf("%+v", one)
		}
	}
}

// TestExamineGivesUp bounds a check that hangs.
func TestExamineGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		start := time.Now()
		found := run(t.Context(), []check{
			{groupHost, "hangs", func(context.Context) verdict { <-hang; return good("late") }},
			{groupMesh, "works", func(context.Context) verdict { return good("fine") }},
		})
		if time.Since(start) != checkTime || found[0].Verdict != api.VerdictSkip || found[1].Detail != "fine" {
			t.Errorf("%s: %+v", time.Since(start), found)
		}
		close(hang)
	})
}

func TestHostChecks(t *testing.T) {
	cfg := statetest.Config(t)
	f := Host{Config: cfg.Fixed, Networks: []netip.Prefix{netip.MustParsePrefix(config.DefaultNetwork)}}
	expect := func(name string, v verdict, want api.Verdict, text string) {
		t.Helper()
		if v.v != want || !strings.Contains(v.detail+v.hint, text) {
			t.Errorf("%s: %+v, want %s with %q", name, v, want, text)
		}
	}
	ctx := t.Context()
	expect("modes", checkFileModes(ctx, f), api.VerdictOK, "owner only")
	expect("writable", checkStateDir(ctx, f), api.VerdictOK, cfg.StateDir)
	if left, err := os.ReadDir(cfg.StateDir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
	if err := os.WriteFile(filepath.Join(cfg.StateDir, "root.key"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	expect("open key", checkFileModes(ctx, f), api.VerdictWarn, "root.key")
	expect("no names", checkNamesFile(ctx, f), api.VerdictSkip, "not set")
	n := f
	n.NamesFile = filepath.Join(cfg.StateDir, "root.key")
	expect("names among keys", checkFileModes(ctx, n), api.VerdictOK, "owner only")
	expect("names that nobody sees", checkNamesFile(ctx, n), api.VerdictWarn, "/run/skein/hosts")
	n.NamesFile = filepath.Join(t.TempDir(), "hosts")
	expect("names", checkNamesFile(ctx, n), api.VerdictOK, n.NamesFile)
	if err := os.WriteFile(n.NamesFile, []byte("127.0.0.1 localhost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("another's names", checkNamesFile(ctx, n), api.VerdictFail, "was not written by skein")
	n.NamesFile = "/nowhere/hosts"
	expect("names nowhere", checkNamesFile(ctx, n), api.VerdictSkip, "/nowhere")
	if err := os.Chmod(cfg.StateDir, 0o755); err != nil {
		t.Fatal(err)
	}
	expect("open directory", checkFileModes(ctx, f), api.VerdictFail, "mode 0755")
	expect("rights", checkCapabilities(ctx, f), api.VerdictOK, "needs none")
	expect("tun", checkTUN(ctx, f), api.VerdictSkip, "netstack")
	expect("backend", checkBackend(ctx, f), api.VerdictOK, "netstack")
	expect("overlap", checkOverlap(ctx, f), api.VerdictOK, "no routes")

	expect("no device", checkInterface(ctx, f), api.VerdictOK, "netstack")
	other := f
	other.Config.Mesh.Backend, other.Config.Mesh.Interface = "kernel", "lo"
	expect("another's device", checkInterface(ctx, other), api.VerdictFail, "set mesh.interface")
	other.Config.Mesh.Interface = "sktnone0"
	expect("no such device", checkInterface(ctx, other), api.VerdictOK, "sktnone0 is free")

	// What is taken is told, with what to do.
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	f.Config.Mesh.Listen = netip.MustParseAddrPort(taken.LocalAddr().String())
	expect("port", checkUDPPort(ctx, f), api.VerdictFail, "skein net cleanup")
	f.Unasked = true
	expect("port of a daemon that may not be asked", checkUDPPort(ctx, f), api.VerdictSkip, "may not ask")
	stream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	joins := f
	joins.Config.Join.Listen = netip.MustParseAddrPort(stream.Addr().String())
	expect("join port of a daemon that may not be asked", checkJoinPort(ctx, joins), api.VerdictSkip, "may not ask")
	f.Unasked = false
	f.Backend = "netstack"
	expect("own port", checkUDPPort(ctx, f), api.VerdictOK, "this daemon")
	f.Backend = ""
	f.Config.Join.Listen = netip.MustParseAddrPort("192.0.2.77:1")
	expect("foreign address", checkJoinPort(ctx, f), api.VerdictFail, "no interface")

	// What is not there yet is no failure.
	f.Config.StateDir = filepath.Join(cfg.StateDir, "none")
	expect("no directory", checkStateDir(ctx, f), api.VerdictSkip, "does not exist yet")
	expect("disk of the parent", checkDisk(ctx, f), api.VerdictOK, "free for")
	expect("disk full", judgeDisk("/x", 1<<20, config.Default().EventLog), api.VerdictFail, "1 MiB free")
	expect("disk low", judgeDisk("/x", 500<<20, config.Default().EventLog), api.VerdictWarn, "500 MiB free")
	expect("narrow", judgeUnderlay(1300, netip.MustParseAddr("192.0.2.1")), api.VerdictFail, "1360 or more")
	expect("wide enough", judgeUnderlay(1400, netip.MustParseAddr("192.0.2.1")), api.VerdictOK, "1400")

	// A daemon that fell back says so.
	f.Config.Mesh.Backend, f.Backend = config.BackendAuto, config.BackendTUN
	expect("fallback", checkBackend(ctx, f), api.VerdictOK, "tun is in use")
	f.Backend = config.BackendKernel
	expect("kernel", checkBackend(ctx, f), api.VerdictOK, "kernel is in use")
}

// TestJudgeHost judges facts of machines that this one is not.
func TestJudgeHost(t *testing.T) {
	h := Host{Config: config.Default().Fixed, NamesFile: "/run/skein/hosts", uid: 1000}
	h.Config.StateDir, h.Config.Mesh.Backend = "/var/lib/skein", config.BackendAuto
	up := h
	up.Backend = config.BackendKernel
	none := errors.New("no such module")
	for _, c := range []struct {
		name string
		got  verdict
		want api.Verdict
		text string
	}{
		{"not root", judgeModes(h, modes{err: fs.ErrPermission}), api.VerdictSkip, "uid 1000"},
		{"open keys", judgeModes(h, modes{dir: 0o700, open: []string{"root.key"}}), api.VerdictWarn, "root.key"},
		{"another's directory", judgeModes(up, modes{dir: 0o700, owner: 4711}), api.VerdictFail, "belongs to 4711, and the daemon runs as"},
		{"more than can be looked at", judgeModes(h, modes{dir: 0o700, owner: 1000, cut: true}), api.VerdictOK, "only the first"},
		{"not the daemon's user", judgeStateDir(h, writing{write: fs.ErrPermission}), api.VerdictSkip, "uid 1000 may not write"},
		{"the daemon may not write", judgeStateDir(up, writing{write: fs.ErrPermission}), api.VerdictFail, "writable"},
		{"disk broken", judgeStateDir(h, writing{write: syscall.EIO}), api.VerdictFail, "input/output"},
		{"names not there yet", judgeNamesFile(h, false, writing{stat: fs.ErrNotExist}), api.VerdictSkip, "/run/skein does not exist"},
		{"names gone", judgeNamesFile(up, false, writing{stat: fs.ErrNotExist}), api.VerdictFail, "does not exist"},
		{"log of a host that never ran", judgeLog(h, 0, fs.ErrNotExist), api.VerdictSkip, "/var/lib/skein/log does not exist yet"},
		{"rights", judgeCapabilities(up, true, nil), api.VerdictOK, "is there"},
		{"no rights here", judgeCapabilities(h, false, nil), api.VerdictSkip, "the unit gives it"},
		{"no rights", judgeCapabilities(up, false, nil), api.VerdictFail, "is missing"},
		{"no TUN, kernel", judgeTUN(h, fs.ErrNotExist, nil), api.VerdictOK, "not needed"},
		{"no TUN, no kernel", judgeTUN(h, fs.ErrNotExist, none), api.VerdictFail, "modprobe tun"},
		{"no kernel", judgeBackend(h, none), api.VerdictOK, "the daemon will use TUN"},
		{"kernel in use", judgeBackend(up, nil), api.VerdictOK, "kernel is in use"},
		{"port of a device that was left", judgeUDPPort(h, syscall.EADDRINUSE, true), api.VerdictSkip, "leaves for its next start"},
		{"port of another", judgeUDPPort(h, syscall.EADDRINUSE, false), api.VerdictFail, "skein net cleanup"},
		{"overlap", judgeOverlap(h, device.ErrOverlap), api.VerdictFail, "skein init --network"},
		{"foreign device", judgeInterface("wg0", device.ErrForeign), api.VerdictFail, "set mesh.interface"},
	} {
		if c.got.v != c.want || !strings.Contains(c.got.detail+c.got.hint, c.text) {
			t.Errorf("%s: %+v, want %s with %q", c.name, c.got, c.want, c.text)
		}
	}
}

// TestDoctorAlone runs every check on this machine; each says something.
func TestDoctorAlone(t *testing.T) {
	cfg := statetest.Config(t)
	seen := map[string]bool{}
	for _, f := range Alone(t.Context(), cfg, false) {
		if f.Detail == "" || f.Verdict == "" || seen[f.Check] || f.Doc != "docs/operations.md#"+f.Check {
			t.Errorf("%+v", f)
		}
		seen[f.Check] = true
	}
	for _, name := range []string{"file-modes", "state-files", "event-log", "disk-space", "clock-sync", "capabilities", "tun-device", "wireguard-backend", "udp-port", "route-overlap", "mtu"} {
		if !seen[name] {
			t.Errorf("no check %s", name)
		}
	}
}

// TestChecksAreDocumented gives each check its paragraph, and each paragraph its
// check.
func TestChecksAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^### ([a-z0-9-]+)$`).FindAllStringSubmatch(string(text), -1) {
		documented[m[1]] = true
	}
	names := map[string]bool{"config-parse": true, "daemon": true, "membership": true, "event-log": true} // of the command, or without a daemon
	for _, c := range append(hostChecks(Host{}), clusterChecks(healthy(t), checkKernelClock)...) {
		names[c.name] = true
	}
	if !maps.Equal(documented, names) {
		t.Errorf("checks %v, paragraphs of docs/operations.md %v", slices.Sorted(maps.Keys(names)), slices.Sorted(maps.Keys(documented)))
	}
}
