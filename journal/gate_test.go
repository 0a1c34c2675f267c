package journal

import (
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/stamps"
	"github.com/skein-project/skein/lease"
)

// TestPoll counts whose clocks speak for the own one: the other voters where a
// majority of them is needed, else all other members.
func TestPoll(t *testing.T) {
	member := func(n cluster.NodeID, known bool, skew time.Duration) coord.MemberView {
		return coord.MemberView{Member: cluster.Member{Node: n}, SkewKnown: known, Skew: skew}
	}
	members := []coord.MemberView{
		member("n1", false, 0), member("n2", true, 5*time.Second), member("n3", true, -2*time.Hour), member("n4", false, 0),
	}
	config := func(mode cluster.Mode, voters ...cluster.NodeID) cluster.VoterConfig {
		return cluster.VoterConfig{Epoch: 1, Term: 1, Voters: voters, Mode: mode}
	}
	for name, c := range map[string]struct {
		cfg  cluster.VoterConfig
		want stamps.Facts
	}{
		"one of three voters":      {config(cluster.ModeQuorum, "n1", "n2", "n3"), stamps.Facts{Need: 1, Others: 2, Agree: 1, Differ: 1, Offset: -2 * time.Hour}},
		"beside three voters":      {config(cluster.ModeQuorum, "n2", "n3", "n4"), stamps.Facts{Need: 2, Others: 3, Agree: 1, Differ: 1, Offset: -2 * time.Hour}},
		"the only voter":           {config(cluster.ModeSingle, "n1"), stamps.Facts{Others: 3, Agree: 1, Differ: 1, Offset: -2 * time.Hour}},
		"beside the only voter":    {config(cluster.ModeSingle, "n2"), stamps.Facts{Need: 1, Others: 1, Agree: 1}},
		"each voter may act alone": {config(cluster.ModeAvailable, "n1", "n2"), stamps.Facts{Others: 3, Agree: 1, Differ: 1, Offset: -2 * time.Hour}},
		"voters not known yet":     {cluster.VoterConfig{}, stamps.Facts{Others: 3, Agree: 1, Differ: 1, Offset: -2 * time.Hour}},
	} {
		v := &coord.View{Self: "n1", Members: members, Lease: lease.Status{Config: c.cfg}}
		if got := poll(v, 5*time.Second); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
