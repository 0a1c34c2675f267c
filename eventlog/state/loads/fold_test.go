package loads

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/canon"
)

func run(key string, change func(*event.LoadRun)) event.LoadRun {
	b := event.LoadRun{
		Run: event.NewLoadID("uid:1", key), Owner: "uid:1", Name: key, Bundle: cluster.Hash{7}, State: event.LoadQueued, Since: 5, Actor: "uid:1@a",
	}
	if change != nil {
		change(&b)
	}
	return b
}

func at(n int, body any) event.Event {
	b, _ := json.Marshal(body)
	return event.Event{
		Source: event.SourceID{Node: cluster.NodeID([]string{"a", "b"}[n%2]), Inc: 1}, Seq: uint64(n), HLC: cluster.NewHLC(time.Unix(int64(1e9+n), 0), 0), Term: 1, Kind: event.KindLoadRun, Body: b,
	}
}

func written(f *Fold) []byte {
	w := canon.NewWriter(nil)
	f.Write(w)
	return w.Written()
}

// TestOrderDoesNotMatter folds histories in several orders, and reads again what was
// written.
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var all []event.Event
		for i := range 5 + rng.IntN(60) {
			all = append(all, at(i+1, run(fmt.Sprint("s", rng.IntN(4)), func(b *event.LoadRun) {
				if rng.IntN(2) == 0 {
					b.State, b.Slices = event.LoadStarted, []event.LoadSlice{{Host: "n1", Share: 1 + rng.IntN(3)}}
				}
				if rng.IntN(3) == 0 {
					b.State, b.Verdict, b.Report = event.LoadEnded, "passed", cluster.Hash{byte(i)}
				}
			})))
		}
		var want []byte
		for range 4 {
			f := New()
			for _, e := range all {
				if about, ok := f.Apply(&e); !about || !ok {
					t.Fatalf("%s", e.Body)
				}
			}
			if want == nil {
				want = written(f)
			}
			if !bytes.Equal(written(f), want) {
				t.Fatalf("seed %d: another order gives another state", seed)
			}
			again, in := New(), canon.NewReader(want)
			again.Read(in)
			if in.Err() != nil || in.Len() != 0 || !bytes.Equal(written(again), want) {
				t.Fatalf("seed %d: %v, or not the same when it is read again", seed, in.Err())
			}
			copied := f.Clone()
			e := at(1000, run("s1", func(b *event.LoadRun) { b.Name = "x" }))
			f.Apply(&e)
			if !bytes.Equal(written(copied), want) {
				t.Fatal("a copy changes with what it is a copy of")
			}
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
	}
}

// TestKept: what an open one needs, and the report of one that ended, are kept; one that
// ended long ago is forgotten, one that is open is not.
func TestKept(t *testing.T) {
	f := New()
	apply := func(e event.Event) { f.Apply(&e) }
	apply(at(1, run("old", func(b *event.LoadRun) { b.State, b.Verdict, b.Report = event.LoadEnded, "failed", cluster.Hash{9} })))
	apply(at(2, run("open", nil)))
	need, kept := map[cluster.Hash]bool{}, map[cluster.Hash]bool{}
	f.AddArtefacts(need)
	f.AddReports(kept)
	if len(need) != 1 || !need[cluster.Hash{7}] || len(kept) != 1 || !kept[cluster.Hash{9}] {
		t.Error(need, kept)
	}
	apply(at(int(life/time.Second)+10, run("new", nil)))
	f.Settle()
	if _, ok := f.Run(event.NewLoadID("uid:1", "old")); ok || len(f.Runs()) != 2 {
		t.Errorf("%+v", f.Runs())
	}
}

// TestMalformed: what cannot be what it says is refused.
func TestMalformed(t *testing.T) {
	for _, b := range []any{
		json.RawMessage("1"),
		run("a", func(b *event.LoadRun) { b.Run = "l1" }),
		run("a", func(b *event.LoadRun) { b.Owner = "" }),
		run("a", func(b *event.LoadRun) { b.Bundle = cluster.Hash{} }),
		run("a", func(b *event.LoadRun) { b.State = "odd" }),
		run("a", func(b *event.LoadRun) { b.State = event.LoadStarted }),
		run("a", func(b *event.LoadRun) { b.State = event.LoadEnded }),
		run("a", func(b *event.LoadRun) { b.Loss = "weep" }),
		run("a", func(b *event.LoadRun) { b.On = []cluster.NodeID{"b", "a"} }),
		run("a", func(b *event.LoadRun) {
			b.State, b.Slices = event.LoadStarted, []event.LoadSlice{{Host: "a", Share: 1}, {Host: "a", Share: 1}}
		}),
		run("a", func(b *event.LoadRun) { b.State, b.Slices = event.LoadStarted, []event.LoadSlice{{Host: "a"}} }),
	} {
		f, e := New(), at(1, b)
		if about, ok := f.Apply(&e); !about || ok || !f.Empty() {
			t.Errorf("taken: %s", e.Body)
		}
	}
	if about, _ := New().Apply(&event.Event{Kind: event.KindJobDone}); about {
		t.Error("about another kind")
	}
}
