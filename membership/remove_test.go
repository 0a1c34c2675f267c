package membership

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/forward"
)

// TestRemoveSponsorAsks: where the root key is, a plain member does not get a
// sponsor removed.
func TestRemoveSponsorAsks(t *testing.T) {
	caps := []string{member.CapSponsor}
	id := &join.Identity{Node: "n1"}
	roster := NewRoster(id, member.Roster{Members: []cluster.Member{{Node: "n1", Caps: caps}, {Node: "n2", Caps: caps}, {Node: "n3"}}})
	for id, want := range map[cluster.NodeID]bool{"n1": true, "n2": true, "n3": false, "n9": false} {
		if roster.IsSponsor(id) != want {
			t.Errorf("%s: %t", id, !want)
		}
	}
	dir := filepath.Join(t.TempDir(), "n1")
	if err := join.Init(dir, join.InitOptions{Node: "n1", ClusterName: "lab", Network: netip.MustParsePrefix("10.86.0.0/16")}); err != nil {
		t.Fatal(err)
	}
	id, _, err := join.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSponsor(SponsorOptions{Identity: id, StateDir: dir, Roster: roster})
	s.sponsor.Store(new(join.Sponsor))
	_, err = s.Remove(t.Context(), forward.Asker{From: "n3", Self: "n1", Actor: "uid:0@n3"}, forward.RemoveNode{Node: "n2"})
	if p, ok := err.(*api.Problem); !ok || p.Code != api.CodeForbidden { //nolint:errorlint // one that lacks a key would be wrapped
		t.Errorf("n3 gets n2 removed: %v", err)
	}
}
