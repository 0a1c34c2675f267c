package loads

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/bundle"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/stat"
)

// world is a run on hosts without a network: what they counted, who carries it out, and who
// follows it.
type world struct {
	t         *testing.T
	rng       *rand.Rand
	l         *Loads
	c         *compiled
	d         *drive
	j         *judging
	now       time.Time
	hosts     []*stat.Shelf // what each host keeps, in which neighbours become one
	ended     []bool
	followers []*follower
}

// holder is one that knows nothing but who is lost.
func (w *world) holder() {
	was := w.d
	w.d = &drive{l: w.l, id: event.NewLoadID("uid:1", "k"), news: make(chan struct{}), c: w.c}
	for i := range w.hosts {
		p := &part{host: cluster.NodeID(fmt.Sprint("n", i)), share: 1, most: 1 << 20, shelf: w.shelf()}
		if was != nil {
			p.lost = was.parts[i].lost
		}
		w.d.parts = append(w.d.parts, p)
	}
	w.j = newJudging(w.d)
	w.d.judge = w.j.judge
}

func (w *world) shelf() *stat.Shelf {
	return stat.NewShelf(len(w.c.plan.Steps), len(w.c.plan.Checks), stat.MaxShelf)
}

// counts has a host count for some windows.
func (w *world) counts(i, span int) {
	h := w.hosts[i]
	b := stat.NewBank(len(w.c.plan.Steps), len(w.c.plan.Checks))
	for range w.rng.IntN(20) {
		class := []load.Class{load.OK, load.OK, load.OK, load.HTTP5xx, load.Timeout, load.Dropped, load.Skipped}[w.rng.IntN(7)]
		x := stat.Sample{Series: w.rng.IntN(len(w.c.plan.Steps)), Class: class}
		x.Times[stat.Latency], x.Have[stat.Latency] = time.Duration(w.rng.IntN(1e9)), true
		b.Record(&x)
	}
	at := h.At() + span
	f := stat.Frame{First: h.Next(), Last: h.Next(), At: at, Span: span, Warm: at <= int(w.c.plan.Warmup/stat.Step) && span > 0, Bank: b.Append(nil)}
	if err := h.Put(f); err != nil {
		w.t.Fatal(err)
	}
}

// tells has the holder hear of a host.
func (w *world) tells(i int) {
	p := w.d.parts[i]
	if p.over() {
		return
	}
	list, known := w.hosts[i].Since(p.shelf.Next(), 1<<20)
	x := gang.Counted{Stage: gang.Running, Frames: list}
	if w.ended[i] {
		x.Stage, x.End = gang.Done, &gang.Ended{}
	}
	if !known {
		w.d.lose(p, "what it counts could not be followed")
		return
	}
	if err := p.take(x); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) follows(f *follower) {
	x, _, _ := w.d.since(f.after)
	if x.Again || f.classes == nil {
		f.classes = map[string]uint64{}
	}
	for _, s := range x.Steps {
		for c, n := range s.Classes {
			f.classes[c] += n
		}
	}
	f.after = x.Next
}

// TestPublishedIsCounted: whatever hosts, holders and followers do, in whatever order, what a
// follower was told in the end is the report, to the count, and that is what the holder has
// of the hosts. SKEIN_PROVE=1 tries 300 orders.
func TestPublishedIsCounted(t *testing.T) {
	text, err := (&bundle.Bundle{Scenario: "warmup = \"2s\"\ntraffic.main = { flow = \"f\", rate = 10, for = \"60s\" }\n[[flow.f]]\nget = \"http://x/a\"\n[[flow.f]]\nget = \"http://x/b\"\n"}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	c, err := compile(text)
	if err != nil {
		t.Fatal(err)
	}
	seeds := uint64(100)
	if os.Getenv("SKEIN_PROVE") != "" {
		seeds = 300
	}
	for seed := range seeds {
		w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 1)), l: &Loads{o: Options{Logger: zerolog.Nop()}}, c: c, now: time.Unix(1e9, 0)}
		for range 1 + w.rng.IntN(4) {
			w.hosts, w.ended = append(w.hosts, w.shelf()), append(w.ended, false)
		}
		w.followers = []*follower{{}, {}, {}}
		w.holder()
		for range 50 + w.rng.IntN(400) {
			i := w.rng.IntN(len(w.hosts))
			switch w.rng.IntN(20) {
			case 0:
				w.holder()
			case 1:
				if w.rng.IntN(8) == 0 {
					w.d.lose(w.d.parts[i], "killed")
				}
			case 2, 3, 4, 5, 6, 7:
				if !w.ended[i] {
					w.counts(i, []int{10, 10, 10, 5, 1}[w.rng.IntN(5)])
				}
			case 8, 9, 10, 11:
				w.tells(i)
			case 12, 13, 14:
				w.now = w.now.Add(time.Duration(w.rng.IntN(2000)) * time.Millisecond)
				w.j.advance(w.now, false)
			case 15:
				if !w.ended[i] && w.rng.IntN(10) == 0 {
					w.counts(i, 0) // what ended last
					w.ended[i] = true
				}
			default:
				w.follows(w.followers[w.rng.IntN(len(w.followers))])
			}
		}
		want := map[string]uint64{}
		for i, h := range w.hosts {
			if !w.ended[i] {
				w.counts(i, 0)
				w.ended[i] = true
			}
			w.tells(i)
			if w.d.parts[i].lost == "" && w.d.parts[i].shelf.Next() != h.Next() {
				t.Fatalf("seed %d: host %d has %d frames, the holder %d", seed, i, h.Next(), w.d.parts[i].shelf.Next())
			}
			list, _ := w.d.parts[i].shelf.Since(0, 1<<30)
			for _, f := range list {
				b, err := stat.ReadBank(f.Bank, len(c.plan.Steps), len(c.plan.Checks))
				if err != nil {
					t.Fatal(err)
				}
				for class, n := range b.All().Classes {
					if n > 0 && !f.Warm {
						want[load.Class(class).String()] += n
					}
				}
			}
		}
		doc := w.j.result(false)
		got := maps.Clone(doc.Classes)
		maps.DeleteFunc(got, func(_ string, n uint64) bool { return n == 0 })
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: the report has %v, the hosts told %v", seed, got, want)
		}
		for k, f := range w.followers {
			if w.follows(f); !reflect.DeepEqual(f.classes, want) {
				t.Fatalf("seed %d: follower %d was told %v, the report has %v", seed, k, f.classes, want)
			}
		}
	}
}
