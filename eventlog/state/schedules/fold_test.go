package schedules

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/eventlog/state/canon"
)

func set(name string, change func(*event.ScheduleSet)) event.ScheduleSet {
	b := event.ScheduleSet{
		Schedule: flow.NewScheduleID("uid:1", name), Owner: "uid:1", Name: name, Cron: "1 2 * * *", Missed: flow.MissedLast, Overlap: flow.OverlapSkip,
		Def: json.RawMessage(`{"step":[]}`), Params: json.RawMessage(`{}`), Since: 5,
	}
	if change != nil {
		change(&b)
	}
	return b
}

func at(n int, kind event.Kind, body any) event.Event {
	b, _ := json.Marshal(body)
	return event.Event{
		Source: event.SourceID{Node: cluster.NodeID([]string{"a", "b"}[n%2]), Inc: 1}, Seq: uint64(n), HLC: cluster.NewHLC(time.Unix(int64(1e9+n), 0), 0), Term: 1, Kind: kind, Body: b,
	}
}

func apply(t *testing.T, f *Fold, e event.Event) {
	t.Helper()
	if about, ok := f.Apply(&e); !about || !ok {
		t.Fatalf("%s %s: %t %t", e.Kind, e.Body, about, ok)
	}
}

func written(f *Fold) []byte {
	w := canon.NewWriter(nil)
	f.Write(w)
	return w.Written()
}

func shown(f *Fold) string {
	b, _ := json.Marshal(f.Schedules())
	return string(b)
}

// TestOrderDoesNotMatter folds histories in several orders, and reads again what was
// written.
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var all []event.Event
		for i := range 5 + rng.IntN(120) {
			name := fmt.Sprint("s", rng.IntN(3))
			if rng.IntN(4) == 0 {
				all = append(all, at(i+1, event.KindScheduleSet, set(name, func(b *event.ScheduleSet) { b.Since, b.Removed = int64(i), rng.IntN(4) == 0 })))
				continue
			}
			b := event.ScheduleFired{Schedule: flow.NewScheduleID("uid:1", name), At: int64(rng.IntN(40)), Run: flow.NewRunID("uid:1", fmt.Sprint(i)), Missed: i}
			if rng.IntN(2) == 0 {
				b.Run, b.Skipped = "", "overlap"
			}
			all = append(all, at(i+1, event.KindScheduleFired, b))
		}
		var want []byte
		var said string
		for range 4 {
			f := New()
			for _, e := range all {
				apply(t, f, e)
				if rng.IntN(8) == 0 {
					apply(t, f, e) // once more changes nothing
				}
			}
			if want == nil {
				want, said = written(f), shown(f)
			}
			if !bytes.Equal(written(f), want) || shown(f) != said {
				t.Fatalf("seed %d: another order gives another state\n%s\n%s", seed, shown(f), said)
			}
			again, in := New(), canon.NewReader(want)
			again.Read(in)
			if in.Err() != nil || in.Len() != 0 || !bytes.Equal(written(again), want) || shown(again) != said {
				t.Fatalf("seed %d: %v, or not the same when it is read again", seed, in.Err())
			}
			copied := f.Clone()
			apply(t, f, at(1000, event.KindScheduleFired, event.ScheduleFired{Schedule: flow.NewScheduleID("uid:1", "s1"), At: 99, Skipped: "x"}))
			if !bytes.Equal(written(copied), want) {
				t.Fatalf("seed %d: a copy changes with what it is a copy of", seed)
			}
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		}
	}
}

// TestGone: a schedule that was removed is not shown, what came of its times is known for
// a month, and one of the same name goes on behind them.
func TestGone(t *testing.T) {
	f, id := New(), flow.NewScheduleID("uid:1", "n")
	apply(t, f, at(1, event.KindScheduleSet, set("n", nil)))
	apply(t, f, at(2, event.KindScheduleFired, event.ScheduleFired{Schedule: id, At: 70, Skipped: "overlap"}))
	apply(t, f, at(3, event.KindScheduleSet, set("n", func(b *event.ScheduleSet) { b.Removed = true })))
	if _, ok := f.Schedule(id); ok || len(f.Schedules()) != 0 {
		t.Error("one that was removed is shown")
	}
	before := f.Clone()
	apply(t, f, at(4, event.KindScheduleSet, set("n", nil)))
	if s, ok := f.Schedule(id); !ok || s.After() != 70 {
		t.Errorf("made again: %+v", s)
	}
	before.Settle()
	if len(before.all) != 1 {
		t.Error("forgotten too early")
	}
	late := int(graveLife/time.Second) + 10
	apply(t, before, at(late, event.KindScheduleSet, set("other", nil)))
	want := written(before)
	before.Settle()
	if len(before.all) != 1 || !bytes.Equal(written(before), want) || before.Empty() {
		t.Errorf("kept for ever: %v", before.all)
	}
	f = New()
	def := set("m", func(b *event.ScheduleSet) {
		b.Def = json.RawMessage(`{"step":[{"name":"a","job":{"artefact":"` + cluster.Hash{7}.String() + `"}}]}`)
	})
	apply(t, f, at(1, event.KindScheduleSet, def))
	need := map[cluster.Hash]bool{}
	if f.AddArtefacts(need); !need[cluster.Hash{7}] {
		t.Error("what its workflow needs is not kept")
	}
}

// TestMalformed: what cannot be what it says is refused.
func TestMalformed(t *testing.T) {
	id := string(flow.NewScheduleID("uid:1", "n"))
	bad := map[event.Kind][]any{
		event.KindScheduleSet: {
			json.RawMessage("1"), set("n", func(b *event.ScheduleSet) { b.Owner = "uid:2" }), set("n", func(b *event.ScheduleSet) { b.Name = "a b" }),
			set("n", func(b *event.ScheduleSet) { b.Missed = "odd" }), set("n", func(b *event.ScheduleSet) { b.Overlap = "" }), set("n", func(b *event.ScheduleSet) { b.Def = nil }),
			set("n", func(b *event.ScheduleSet) { b.Since = -1 }), set("n", func(b *event.ScheduleSet) { b.MissedSeconds = flow.MaxMissed + 1 }),
		},
		event.KindScheduleFired: {
			json.RawMessage("1"),
			event.ScheduleFired{Schedule: "s", At: 1, Skipped: "x"},
			event.ScheduleFired{Schedule: flow.ScheduleID(id), At: -1, Skipped: "x"},
			event.ScheduleFired{Schedule: flow.ScheduleID(id), At: 1},
			event.ScheduleFired{Schedule: flow.ScheduleID(id), At: 1, Run: "w1"},
			event.ScheduleFired{Schedule: flow.ScheduleID(id), At: 1, Skipped: "x", Missed: -1},
		},
	}
	for kind, bodies := range bad {
		for _, b := range bodies {
			f, e := New(), at(1, kind, b)
			if about, ok := f.Apply(&e); !about || ok || !f.Empty() {
				t.Errorf("%s %s: taken", kind, e.Body)
			}
		}
	}
}
