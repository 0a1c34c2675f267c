package daemon

import (
	"errors"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
)

// TestMaySucceed refuses each host that could not take the lease over.
func TestMaySucceed(t *testing.T) {
	able := func(id cluster.NodeID, change func(*coord.MemberView)) coord.MemberView {
		m := coord.MemberView{Member: cluster.Member{Node: id}, Health: cluster.Alive, Eligible: true, CaughtUp: true}
		change(&m)
		return m
	}
	v := &coord.View{Self: "n1", Members: []coord.MemberView{
		able("n1", func(*coord.MemberView) {}),
		able("n2", func(*coord.MemberView) {}),
		able("dead", func(m *coord.MemberView) { m.Health = cluster.Dead }),
		able("witness", func(m *coord.MemberView) { m.Witness = true }),
		able("drained", func(m *coord.MemberView) { m.Eligible = false }),
		able("outside", func(*coord.MemberView) {}),
		able("behind", func(m *coord.MemberView) { m.CaughtUp = false }),
		able("other", func(m *coord.MemberView) { m.Incompatible = "has profile \"lan\"" }),
	}}
	slices.SortFunc(v.Members, func(a, b coord.MemberView) int { return strings.Compare(string(a.Node), string(b.Node)) })
	v.Lease.Config.Voters = []cluster.NodeID{"n1", "n2", "dead", "witness", "drained", "behind", "other"}
	for to, want := range map[cluster.NodeID]string{
		"": "", "n2": "", "n9": "no member", "n1": "already", "dead": "dead", "witness": "witness", "drained": "lease.eligible",
		"outside": "no voter", "behind": "behind", "other": "profile",
	} {
		p := maySucceed(v, to)
		if (p == nil) != (want == "") || p != nil && (!strings.Contains(p.Detail, want) || !strings.Contains(p.Detail, string(to))) {
			t.Errorf("%q: %v, want %q", to, p, want)
		}
	}
}

// TestMostTellingRefusal picks among what several sponsors answered.
func TestMostTellingRefusal(t *testing.T) {
	no := remoteReply{Problem: api.Errorf(api.CodeConflict, "no majority")}
	lacks := lacking(api.Errorf(api.CodeConflict, "no root key"))
	second := lacking(api.Errorf(api.CodeConflict, "no root key here either"))
	down := errors.New("timeout")
	for _, tt := range []struct {
		name string
		in   []any
		want string
	}{
		{"none", nil, "no sponsor is alive"},
		{"down", []any{down}, "sponsor not reached: timeout"},
		{"the last is down", []any{lacks, down}, "no root key"},
		{"the first is down", []any{down, lacks, second}, "no root key"},
		{"a reason among excuses", []any{lacks, no, second, down}, "no majority"},
	} {
		var r refusals
		for _, x := range tt.in {
			if reply, ok := x.(remoteReply); ok {
				r.add(reply)
			} else {
				r.unreached(down)
			}
		}
		if p := r.worst(); p.Detail != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, p.Detail, tt.want)
		}
	}
	if h := askSponsors([]cluster.NodeID{"n1", "n3"}); !strings.HasSuffix(h, "n1 or n3") {
		t.Error(h)
	}
}

// TestActorOf believes of another host only who on it asked, and not much of
// that.
func TestActorOf(t *testing.T) {
	for in, want := range map[string]string{
		"uid:0":                   "uid:0@n2",
		"uid:0@n1":                "uid:0@n2",
		"@n1":                     "?@n2",
		"":                        "?@n2",
		"uid:0\n\x1b[2J\u202e x":  "uid:0??[2J??x@n2",
		strings.Repeat("a", 1e6):  strings.Repeat("a", maxActor) + "@n2",
		"root@n1@n1 (truly) uid:": "root@n2",
	} {
		if got := actorOf("n2", remoteRequest{Actor: in}); got != want {
			t.Errorf("%.80q is %.80q, want %.80q", in, got, want)
		}
	}
	if got := actorOf("n2", remoteRequest{Actor: "uid:7@n1", Submit: &api.SubmitRequest{}}); got != "uid:7" {
		t.Errorf("the owner of a job is %q: the same key would be another job on each host", got)
	}
}

// TestFavours stops a member that goes on changing what all rely on, and no
// other; it may go on after a while.
func TestFavours(t *testing.T) {
	var now time.Duration
	n := &node{id: &join.Identity{Node: "n1"}, now: func() time.Duration { return now }}
	for what, rule := range favours {
		many := func(from cluster.NodeID) int {
			for i := range 100 {
				if p := n.spare(from, favour(what)); p != nil {
					if p.Code != api.CodeOverloaded || p.RetryAfterSeconds == nil {
						t.Errorf("refused with %+v", p)
					}
					return i
				}
			}
			return 100
		}
		if got := many("n2"); got != rule.burst {
			t.Errorf("%d: %d at once, want %d", what, got, rule.burst)
		}
		if got := many("n3"); got != rule.burst {
			t.Errorf("%d: another has %d left", what, got)
		}
		if got := many("n1"); got != 100 {
			t.Errorf("%d: this host has %d", what, got)
		}
		now += 2*rule.every + rule.every/2
		if got := many("n2"); got != 2 {
			t.Errorf("%d: %d after a while, want 2", what, got)
		}
		if now += rule.every / 2; many("n2") != 1 {
			t.Errorf("%d: half a while is lost", what)
		}
		if now += time.Hour; many("n2") != rule.burst {
			t.Errorf("%d: not all forgotten after an hour", what)
		}
	}
}

// TestRemoveSponsorAsks: where the root key is, a plain member does not get a
// sponsor removed.
func TestRemoveSponsorAsks(t *testing.T) {
	caps := []string{member.CapSponsor}
	n := &node{}
	n.roster.Store(&roster{members: []cluster.Member{{Node: "n1", Caps: caps}, {Node: "n2", Caps: caps}, {Node: "n3"}}})
	for id, want := range map[cluster.NodeID]bool{"n1": true, "n2": true, "n3": false, "n9": false} {
		if n.maySponsor(id) != want {
			t.Errorf("%s: %t", id, !want)
		}
	}
	n.id = &join.Identity{Node: "n1"}
	n.cfg.StateDir = filepath.Join(t.TempDir(), "n1")
	if err := join.Init(n.cfg.StateDir, join.InitOptions{Node: "n1", ClusterName: "lab", Network: netip.MustParsePrefix("10.86.0.0/16")}); err != nil {
		t.Fatal(err)
	}
	n.sponsor.Store(new(join.Sponsor))
	reply := n.remove(t.Context(), "n3", "uid:0@n3", removeRequest{Node: "n2"})
	if p := reply.Problem; p == nil || p.Code != api.CodeForbidden || reply.Lacks {
		t.Errorf("n3 gets n2 removed: %+v", reply)
	}
}
