package eventlog

import (
	"errors"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/replicate"
)

// TestStableTermStartMeansTheCut has a new holder whose cut names a chain that
// the other voters never saw: when its term_start is stable, a majority must
// hold that chain, or it could be lost with the holder although a later term
// builds on it. The voters here pull nothing by themselves.
func TestStableTermStartMeansTheCut(t *testing.T) {
	for name, late := range map[string]bool{"known before the streams": false, "learned after": true} {
		t.Run(name, func(t *testing.T) {
			net := newNetwork(t)
			logs := map[cluster.NodeID]*Log{}
			for _, id := range []cluster.NodeID{"a", "b", "c", "old"} {
				logs[id] = net.join(t, testOptions(t.TempDir(), id))
			}
			for i := range 50 {
				mustAppend(t, logs["old"], note(i))
			}
			a := logs["a"]
			if late {
				a.SetVoters(voters("a", "b", "c"))
				e := mustAppend(t, a, note(1))
				for _, id := range []cluster.NodeID{"b", "c"} {
					eventually(t, "the streams are up", func() bool { return logs[id].Head(a.Source()).Seq == e[0].Seq })
				}
			}
			if err := a.Sync(t.Context(), "old"); err != nil {
				t.Fatal(err)
			}
			a.SetVoters(voters("a", "b", "c"))
			events := mustAppend(t, a, event.Draft{
				Term: 2, Kind: event.KindTermStart, Body: event.TermStart{Term: 2, Cut: a.Cut()},
			})
			if _, err := a.WaitStable(t.Context(), events[0].Seq); err != nil {
				t.Fatal(err)
			}
			source := event.SourceID{Node: "old", Inc: 1}
			holding := 1 // a itself
			for _, id := range []cluster.NodeID{"b", "c"} {
				if logs[id].Head(source).Seq == 50 {
					holding++
				}
			}
			if holding < 2 {
				t.Fatalf("%d of 3 voters hold the cut of a stable term_start, want a majority", holding)
			}
		})
	}
}

// TestOwnVoteIsOfItsTerm: a holder that has promised a higher term may have
// shown its heads to that candidate before its last events were durable, so its
// own vote does not make these stable, as that of no other voter would.
func TestOwnVoteIsOfItsTerm(t *testing.T) {
	tr := newTrio(t, voters("a", "b", "c"), nil)
	a := tr.logs["a"]
	first := mustAppend(t, a, acting(1, 1))
	if _, err := waitStable(t, a, first[0].Seq, patience); err != nil {
		t.Fatal(err)
	}
	tr.net.setDown("c", true)
	tr.promised["a"].Store(2)
	e := mustAppend(t, a, acting(1, 2))
	eventually(t, "b holds it", func() bool { return tr.logs["b"].Head(a.Source()).Seq == e[0].Seq })
	if n, err := waitStable(t, a, e[0].Seq, 300*time.Millisecond); !errors.Is(err, replicate.ErrUnknown) {
		t.Fatalf("stable on %d of which one promised a higher term before: %v", n, err)
	}
	tr.net.setDown("c", false) // it promised nothing
	if n, err := waitStable(t, a, e[0].Seq, patience); err != nil || n != 2 {
		t.Fatalf("on two others: %d, %v", n, err)
	}
}
