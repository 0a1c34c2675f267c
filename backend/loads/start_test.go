package loads

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/load/bundle"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/slice"
	"github.com/skein-project/skein/load/stat"
)

// told is a host that says how far its slice is, and remembers when it is to begin.
type told struct {
	mu     sync.Mutex
	stage  gang.Stage
	ahead  int64 // its clock beside that of this machine
	begins int64
	given  []gang.Start
}

func (h *told) handle(r *forward.Router) {
	forward.Handle(r, forward.LoadClock, func(context.Context, forward.Asker, gang.Named) (gang.Clock, error) {
		return gang.Clock{Now: slice.Clock() + h.ahead}, nil
	})
	forward.Handle(r, forward.LoadCounted, func(context.Context, forward.Asker, gang.Ask) (gang.Counted, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.stage == gang.Ready && len(h.given) > 0 {
			return gang.Counted{Stage: gang.Done, Begins: h.given[0].At, End: &gang.Ended{}}, nil
		}
		return gang.Counted{Stage: h.stage, Begins: h.begins}, nil
	})
	forward.Handle(r, forward.LoadStart, func(_ context.Context, _ forward.Asker, x gang.Start) (forward.None, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.given = append(h.given, x)
		return forward.None{}, nil
	})
}

// TestReadyIsTakenOver: a holder that finds some slices told when to begin, and others only ready,
// has those begin at the same instant, each by its own clock, and loses none; one that finds none
// told has all begin together.
func TestReadyIsTakenOver(t *testing.T) {
	text, err := (&bundle.Bundle{URL: &bundle.URL{URL: "http://127.0.0.1:9/", Rate: 1, Seconds: 1}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	c, err := compile(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, stages := range [][]gang.Stage{
		{gang.Armed, gang.Ready, gang.Ready},
		{gang.Ready, gang.Running, gang.Ready},
		{gang.Ready, gang.Armed, gang.Done},
		{gang.Running, gang.Armed, gang.Armed},
		{gang.Ready, gang.Ready, gang.Ready},
		{gang.Unknown, gang.Armed, gang.Ready},
	} {
		began := slice.Clock() + int64(time.Second)
		all := map[cluster.NodeID]*told{}
		routers := map[cluster.NodeID]*forward.Router{}
		d := &drive{id: event.NewLoadID("uid:1", "k"), news: make(chan struct{}), c: c, term: 2}
		anybody := false
		for i, s := range stages {
			h := &told{stage: s, ahead: int64(i+1) * int64(time.Hour)}
			if s == gang.Armed || s == gang.Running || s == gang.Done {
				h.begins, anybody = began+h.ahead, true
			}
			name := cluster.NodeID([]string{"n1", "n2", "n3"}[i])
			all[name] = h
			d.parts = append(d.parts, &part{host: name, share: 1})
			r, err := forward.New(forward.Options{Self: name, Lease: func() forward.Lease { return forward.Lease{Holder: "holder"} }})
			if err != nil {
				t.Fatal(err)
			}
			h.handle(r)
			routers[name] = r
		}
		var serving sync.WaitGroup
		own, err := forward.New(forward.Options{
			Self: "holder", Lease: func() forward.Lease { return forward.Lease{Holder: "holder", Holding: true} },
			Dial: func(_ context.Context, to cluster.NodeID) (net.Conn, error) {
				a, b := net.Pipe()
				serving.Go(func() { routers[to].Serve(t.Context(), "holder", b) })
				return a, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		d.l = &Loads{o: Options{Remote: own}}
		before := slice.Clock()
		if err := d.start(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		serving.Wait()
		var at []int64 // by this machine's clock
		for i, p := range d.parts {
			h := all[p.host]
			want := 0
			if stages[i] == gang.Ready || !anybody {
				want = 1
			}
			if len(h.given) != want || p.lost != "" {
				t.Errorf("%v: %s was told %d times, want %d; lost %q", stages, p.host, len(h.given), want, p.lost)
				continue
			}
			for _, x := range h.given {
				at = append(at, x.At-h.ahead)
				if x.Attempt != 2 {
					t.Errorf("attempt %d", x.Attempt)
				}
			}
		}
		if anybody {
			at = append(at, began)
		} else if len(at) > 0 && at[0] < before+int64(startAhead) {
			t.Errorf("it begins %s ahead", time.Duration(at[0]-before))
		}
		unsure := int64(0)
		for _, p := range d.parts {
			unsure = max(unsure, p.clock)
		}
		if apart := slices.Max(at) - slices.Min(at); apart > 2*unsure {
			t.Errorf("%v: starts are %s apart, clocks are uncertain by %s", stages, time.Duration(apart), time.Duration(unsure))
		}
		if anybody != (d.at != 0 && d.at-began <= unsure && began-d.at <= unsure) {
			t.Errorf("%v: the run begins at %d, the holder has %d", stages, began, d.at)
		}
	}
}

// TestReadyIsHeardLate: a host that is heard only when the others have begun, and is ready, begins with
// them; it is told once.
func TestReadyIsHeardLate(t *testing.T) {
	r, err := forward.New(forward.Options{Self: "n1", Lease: func() forward.Lease { return forward.Lease{Holder: "n1", Holding: true} }})
	if err != nil {
		t.Fatal(err)
	}
	h := &told{stage: gang.Ready}
	h.handle(r)
	p := &part{host: "n1", share: 1, most: 100, shelf: stat.NewShelf(1, 0, stat.MaxShelf)}
	d := &drive{id: event.NewLoadID("uid:1", "k"), news: make(chan struct{}), l: &Loads{o: Options{Remote: r}}, parts: []*part{p}, at: slice.Clock() - int64(time.Second), extracted: [][]byte{[]byte("t")}}
	d.watch(t.Context(), p)
	if len(h.given) != 1 || string(h.given[0].Extracted[0]) != "t" || p.lost != "" || p.end == nil {
		t.Fatalf("told %d times, lost %q", len(h.given), p.lost)
	}
	if off := h.given[0].At - d.at; off > p.clock || off < -p.clock {
		t.Errorf("it begins %s beside the others, its clock is uncertain by %s", time.Duration(off), time.Duration(p.clock))
	}
}

// TestAnswersTellTheTime: what a host says of its clock with what it counted is read, at once and
// each 10 s, by the answer that was under way for the shortest time.
func TestAnswersTellTheTime(t *testing.T) {
	const ahead = int64(time.Hour)
	const moved = 50 * int64(time.Millisecond)
	r, err := forward.New(forward.Options{Self: "n1", Lease: func() forward.Lease { return forward.Lease{Holder: "n1", Holding: true} }})
	if err != nil {
		t.Fatal(err)
	}
	var asks atomic.Int64
	forward.Handle(r, forward.LoadCounted, func(context.Context, forward.Asker, gang.Ask) (gang.Counted, error) {
		heard := slice.Clock() + ahead + moved
		time.Sleep(20 * time.Millisecond)
		x := gang.Counted{Stage: gang.Running, Heard: heard, Now: slice.Clock() + ahead + moved}
		if asks.Add(1) == 2 {
			x.Stage, x.End = gang.Done, &gang.Ended{}
		}
		return x, nil
	})
	at := slice.Clock()
	p := &part{host: "n1", share: 1, most: 100, shelf: stat.NewShelf(1, 0, stat.MaxShelf), timed: timed{begins: at + ahead}}
	d := &drive{id: event.NewLoadID("uid:1", "k"), news: make(chan struct{}), l: &Loads{o: Options{Remote: r}}, parts: []*part{p}, at: at}
	d.watch(t.Context(), p)
	if off := p.off - moved; !p.seen || off > p.unsure || off < -p.unsure || p.slew != p.off {
		t.Errorf("it moved by %s, uncertain by %s, and windows by %s", time.Duration(p.off), time.Duration(p.unsure), time.Duration(p.slew))
	}
	var x readings
	now := time.Unix(1e9, 0)
	x.add(0, 0, gang.Counted{Now: 1, Heard: 1}, now)
	for i, took := range []int64{9, 8, 2, 7, 4, 4, 4, 4, 4, 4} {
		sent := int64(i) * 100
		got := x.add(sent, sent+50+took, gang.Counted{Heard: sent + 1000 + took/2, Now: sent + 1050 + took/2}, now.Add(time.Duration(i+1)*time.Second))
		if want := (gang.Reading{Ahead: 1000, Uncertain: 1, OK: true}); i < 9 && got.OK || i == 9 && got != want {
			t.Errorf("after %d s: %+v", i+1, got)
		}
	}
}

// TestClocksMove: a start that was uncertain is known better from the readings behind it; a clock that
// jumps is in doubt, with the seconds between which it did; windows are moved after it.
func TestClocksMove(t *testing.T) {
	const ms = int64(time.Millisecond)
	read := func(ahead, unsure int64) gang.Reading { return gang.Reading{Ahead: ahead, Uncertain: unsure, OK: true} }
	x := timed{begins: 5000 * ms}
	at := 1000 * ms // it was read as 4 s ahead
	x.read(read(4000*ms, 40*ms), at, 0)
	if x.clock != 40*ms || x.slew != 0 || x.moved != "" {
		t.Errorf("%+v", x)
	}
	x.read(gang.Reading{}, at, 10*time.Second) // not answered
	x.read(read(4003*ms, ms), at, 20*time.Second)
	if x.clock != 4*ms || x.slew != 3*ms || x.moved != "" {
		t.Errorf("%+v", x)
	}
	x.read(read(4003*ms+ms/2, ms), at, 30*time.Second)
	if x.slew != 3*ms {
		t.Errorf("%+v", x)
	}
	x.read(read(4053*ms, ms), at, 40*time.Second)
	if x.clock != 4*ms-ms/2 && x.clock != 4*ms || x.slew != 53*ms || x.moved != "its clock moved by 50ms beside the holder's between second 30 and 40" {
		t.Errorf("%+v", x)
	}
}
