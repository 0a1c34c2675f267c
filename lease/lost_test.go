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

// TestAbstainingHostIsNotAdded: a single voter that takes a host which abstains
// as a second one would need it and have it not, for ever.
func TestAbstainingHostIsNotAdded(t *testing.T) {
	w := newDutyNet(t, cluster.ProfileLAN, 1, 1, false)
	w.run(w.all())
	a := w.host("a")
	b := PeerChanged{Node: "b", Priority: 50, Alive: true, Eligible: true, CaughtUp: true, Abstains: true}
	c := PeerChanged{Node: "c", Priority: 60, Alive: true, Eligible: true, CaughtUp: true}
	w.step(a, b)
	w.run(10 * time.Second)
	if got := a.state.Status(); got.Config.Has("b") || len(got.Config.Voters) != 1 || !a.state.holds() {
		t.Fatalf("took in a host that abstains: %+v", got.Config)
	}
	w.step(a, c)
	w.run(10 * time.Second)
	if got := a.state.Status().Config; !got.Has("c") || got.Has("b") {
		t.Fatalf("want c as the second voter: %+v", got)
	}
	if got := (&machine{State: a.state}).successor("b"); got == "b" {
		t.Fatal("would hand over to a host that abstains")
	}
}
