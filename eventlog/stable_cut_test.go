package eventlog

import (
	"testing"

	"github.com/skein-project/skein/cluster"
)

// TestStableTermStartMeansTheCut has a new holder whose cut names a chain that
// the other voters never saw: when its term_start is stable, a majority must
// hold that chain, or it could be lost with the holder although a later term
// builds on it. The voters here pull nothing by themselves.
func TestStableTermStartMeansTheCut(t *testing.T) {
	net := newNetwork(t)
	logs := map[cluster.NodeID]*Log{}
	for _, id := range []cluster.NodeID{"a", "b", "c", "old"} {
		logs[id] = net.join(t, testOptions(t.TempDir(), id))
	}
	for i := range 50 {
		mustAppend(t, logs["old"], note(i))
	}
	a := logs["a"]
	if err := a.Sync(t.Context(), "old"); err != nil {
		t.Fatal(err)
	}
	a.SetVoters(voters("a", "b", "c"))
	events := mustAppend(t, a, cluster.Draft{
		Term: 2, Kind: cluster.KindTermStart, Body: cluster.TermStart{Term: 2, Cut: a.Cut()},
	})
	if _, err := a.WaitStable(t.Context(), events[0].Seq); err != nil {
		t.Fatal(err)
	}
	source := cluster.SourceID{Node: "old", Inc: 1}
	holding := 1 // a itself
	for _, id := range []cluster.NodeID{"b", "c"} {
		if logs[id].Head(source).Seq == 50 {
			holding++
		}
	}
	if holding < 2 {
		t.Fatalf("%d of 3 voters hold the cut of a stable term_start, want a majority", holding)
	}
}
