package lease

import (
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

// TestReadmission: a voter that lost its record abstains until the holder has
// taken it out of the voters and its own guards have run out, both.
func TestReadmission(t *testing.T) {
	with := three()
	with.Term, with.Epoch = 4, 5
	out := cluster.VoterConfig{Epoch: 6, Term: 4, Voters: []cluster.NodeID{"b", "c"}, Mode: cluster.ModeQuorum}
	for name, c := range map[string]struct {
		at     time.Duration
		config cluster.VoterConfig
		lost   bool
	}{
		"still a voter":              {time.Minute, with, true},
		"taken out, guards may live": {time.Second, out, true},
		"taken out, guards are over": {time.Minute, out, false},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(Options{
				Self: "a", Timing: timing(t, cluster.ProfileLAN), ModeSetting: cluster.ModeAuto,
				Vote: VoteRecord{Config: three()}, Lost: "missing",
			}, 0)
			if err != nil {
				t.Fatal(err)
			}
			s, acts := Step(s, Receive{From: "b", Msg: Message{Phase: Renew, Term: 4, Round: 1, Config: c.config}}, c.at)
			if got := s.Status().Abstaining != ""; got != c.lost {
				t.Errorf("abstains %t, want %t", got, c.lost)
			}
			for _, a := range acts {
				if a, ok := a.(Send); ok && c.lost && a.Msg.Granted {
					t.Errorf("grants %+v", a.Msg)
				}
			}
		})
	}
}
