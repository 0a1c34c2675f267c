package loads

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/bundle"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/stat"
)

// many is a run on hosts of which each tells a frame a second, with followers that hear of
// each.
type many struct {
	*world
	texts [][]byte
	next  int // frame
}

func newMany(tb testing.TB, hosts, steps, followers int) *many {
	tb.Helper()
	text := "thresholds = [\"p(95)<500\", { when = \"rate(failed)<50%\", window = \"10s\", abort = true }]\ntraffic.main = { flow = \"f\", rate = 1000, for = \"24h\" }\n"
	for i := range steps {
		text += fmt.Sprintf("[[flow.f]]\nname = \"s%d\"\nget = \"http://x/%d\"\ncheck = \"status == 200\"\n", i, i)
	}
	b, err := (&bundle.Bundle{Scenario: text}).Encode()
	if err != nil {
		tb.Fatal(err)
	}
	c, err := compile(b)
	if err != nil {
		tb.Fatal(err)
	}
	m := &many{world: &world{rng: rand.New(rand.NewPCG(1, 2)), l: &Loads{o: Options{Logger: zerolog.Nop()}}, c: c, now: time.Unix(1e9, 0)}}
	m.hosts, m.ended = make([]*stat.Shelf, hosts), make([]bool, hosts)
	m.holder()
	for range followers {
		m.followers = append(m.followers, &follower{})
	}
	for range 8 {
		bank := stat.NewBank(steps, steps)
		for i := range steps {
			for range 20 {
				x := stat.Sample{Series: i, Class: load.OK, In: 200, Out: 100, FirstCheck: i, Checks: []bool{true}, OwnLate: true}
				for p, mean := range map[stat.Phase]float64{stat.Latency: 2e7, stat.Service: 2e7, stat.Late: 1e5, stat.Send: 2e4, stat.FirstByte: 2e7, stat.Receive: 1e5} {
					x.Have[p], x.Times[p] = true, time.Duration(m.rng.ExpFloat64()*mean)
				}
				bank.Record(&x)
			}
		}
		m.texts = append(m.texts, bank.Append(nil))
	}
	return m
}

// second is one of the run: each host tells what it counted, the holder judges it, and followers
// hear of it.
func (m *many) second(tb testing.TB) {
	tb.Helper()
	m.now = m.now.Add(time.Second)
	n := uint64(m.next) //nolint:gosec // a few
	m.next++
	for i, p := range m.d.parts {
		f := stat.Frame{First: n, Last: n, At: 10 * m.next, Span: 10, Bank: m.texts[(i+m.next)%len(m.texts)]}
		if err := p.shelf.Put(f); err != nil {
			tb.Fatal(err)
		}
		p.pending = append(p.pending, f)
	}
	if why := m.j.advance(m.now, false); why != "" {
		tb.Fatal(why)
	}
	for _, f := range m.followers {
		m.follows(f)
	}
}

// TestHundredHosts: what a holder keeps of a run on a hundred hosts, and for its followers, is
// bounded, however long it goes on.
func TestHundredHosts(t *testing.T) {
	const hosts, steps = 100, 8
	m := newMany(t, hosts, steps, 1)
	heap := func() float64 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		return float64(s.HeapAlloc) / 1e6
	}
	before := heap()
	var took []float64
	for range 4 {
		for range 60 {
			m.second(t)
		}
		took = append(took, heap()-before)
	}
	kept := 0
	for _, p := range m.d.parts {
		kept += p.shelf.Size()
		if len(p.pending) > 0 {
			t.Errorf("%d frames wait", len(p.pending))
		}
	}
	if most := float64(stat.MaxShelf)/1e6 + 16; kept > stat.MaxShelf || took[3] > most {
		t.Errorf("after each minute it takes %.1f MB, of which %.1f MB are frames; want at most %.1f MB", took, float64(kept)/1e6, most)
	}
	if want := uint64(m.next * hosts * steps * 20); m.followers[0].classes["ok"] != want || m.j.judge.Whole().All().Classes[load.OK] != want {
		t.Errorf("the follower was told %d, the holder has %d, want %d", m.followers[0].classes["ok"], m.j.judge.Whole().All().Classes[load.OK], want)
	}
	t.Logf("after each minute %.1f MB, frames of %.1f MB", took, float64(kept)/1e6)
}

// BenchmarkHundredHosts is a second of a run on a hundred hosts, with eight steps: its time is
// the share of a processor that the holder needs beside what messages cost.
func BenchmarkHundredHosts(b *testing.B) {
	for _, followers := range []int{0, 1, 10} {
		b.Run(fmt.Sprintf("followers=%d", followers), func(b *testing.B) {
			m := newMany(b, 100, 8, followers)
			b.ReportAllocs()
			for b.Loop() {
				m.second(b)
			}
		})
	}
}

// TestSilentHostIsTold: a host that tells nothing any more, while others do, is silent to
// followers, and its users are none of those that there are now.
func TestSilentHostIsTold(t *testing.T) {
	m := newMany(t, 2, 1, 1)
	for k := range 6 {
		for i, p := range m.d.parts {
			if i == 1 && k > 1 {
				continue
			}
			p.stage = gang.Running
			x := gang.Counted{Stage: gang.Running, Frames: []stat.Frame{{First: uint64(k), Last: uint64(k), At: 10 * (k + 1), Span: 10, Bank: m.texts[0], Gauges: stat.Gauges{Users: 5}}}} //nolint:gosec // a few
			if err := p.take(x); err != nil {
				t.Fatal(err)
			}
		}
		x, _, _ := m.d.since("")
		want, users := "running", 10
		if k > 4 {
			want, users = "silent", 5
		}
		if x.Hosts[0].Stage != "running" || x.Hosts[1].Stage != want || x.Users != users {
			t.Errorf("after %d s: %s and %s with %d users, want %s with %d", k+1, x.Hosts[0].Stage, x.Hosts[1].Stage, x.Users, want, users)
		}
	}
	m.d.parts[1].lost = "killed"
	if x, _, _ := m.d.since(""); x.Hosts[1].Lost != "killed" || x.Hosts[1].Stage == "silent" {
		t.Errorf("%+v", x.Hosts[1])
	}
}
