package hosts

import (
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/offline"
)

// TestGivenUp: who gives up voters is told what this host saw of them.
func TestGivenUp(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	stopped := now.Add(-20 * time.Second)
	before := func(d time.Duration) time.Time { return stopped.Add(-d) }
	type heard = map[cluster.NodeID]time.Time
	for want, p := range map[string]offline.RecoveryPlan{
		"When its daemon stopped 20s ago, it had not heard n2 for 40s and n3 for 41s: if they live, they will go on without this one": {
			Stopped: stopped, Heard: heard{"n2": before(40 * time.Second), "n3": before(41 * time.Second)},
		},
		"When its daemon stopped 20s ago, it had not heard n2 for 1.0s and n3 for 60m: if they live, they will go on without this one": {
			Stopped: stopped, Heard: heard{"n2": before(time.Second), "n3": before(time.Hour)},
		},
		"When its daemon stopped 20s ago, it had not heard n2 at all and n3 at all: if they live, they will go on without this one": {
			Stopped: stopped, Heard: heard{"n2": {}},
		},
		"When n2 and n3 were last heard is not known: if they live, they will go on without this one": {},
	} {
		p.Node, p.Previous.Voters = "n1", []cluster.NodeID{"n1", "n2", "n3"}
		if got := givenUp(p, now); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
	const nobody = "Who else votes is not known here: if others live, they will go on without this one"
	if got := givenUp(offline.RecoveryPlan{Node: "n1"}, now); got != nobody {
		t.Error(got)
	}
}

// TestVotersQuestion: what is asked is a sentence.
func TestVotersQuestion(t *testing.T) {
	var now api.Voters
	now.Config.Voters, now.Config.Mode = []cluster.NodeID{"n1", "n2"}, "available"
	for want, req := range map[string]api.VotersRequest{
		"have the voters, now n1,n2 in mode available, decide in mode quorum":        {Mode: "quorum"},
		"have the voters, now n1,n2 in mode available, become n1,n3":                 {Voters: []cluster.NodeID{"n1", "n3"}},
		"have the voters, now n1,n2 in mode available, be chosen by the holder":      {Auto: true},
		"have the voters, now n1,n2 in mode available, become n1,n3, in mode quorum": {Voters: []cluster.NodeID{"n1", "n3"}, Mode: "quorum"},
		"have the voters, now n1,n2 in mode available, go on without n2":             {Remove: "n2"},
	} {
		if got := votersQuestion(now, req); got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}

// TestHandedOver: an only voter hands over to nobody.
func TestHandedOver(t *testing.T) {
	l := api.Lease{LeaseSummary: api.LeaseSummary{Term: 42, Holder: "n1"}, Config: api.LeaseConfig{Voters: []cluster.NodeID{"n1", "n2", "n3"}}}
	if got := handedOver(l); got != "term 42 of n1 ends: it hands the lease over" {
		t.Error(got)
	}
	l.Config.Voters = l.Config.Voters[:1]
	if got := handedOver(l); !strings.Contains(got, "nobody to hand over to") || !strings.Contains(got, "next term") {
		t.Error(got)
	}
}
