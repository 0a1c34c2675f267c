package zonewatch

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/forward"
)

// hosts of two zones: n01 holds and is in ams, as are all odd ones; the others are in fra.
type hosts struct {
	mu      sync.Mutex
	term    cluster.Term // what the holder answers
	asked   map[cluster.NodeID]int
	near    map[string]int  // "a>b": a asked b in the holder's place
	cut     map[string]bool // "a>b"
	dead    map[cluster.NodeID]bool
	load    map[cluster.NodeID]uint32
	slow    time.Duration // of the holder
	holder  cluster.NodeID
	changed chan struct{} // of all logs
	hubs    map[cluster.NodeID]*Hub
}

func (w *hosts) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

// moved has all logs move on.
func (w *hosts) moved() {
	w.set(func() {
		w.term++
		close(w.changed)
		w.changed = make(chan struct{})
	})
}

func (w *hosts) view(self cluster.NodeID, n int) *coord.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := &coord.View{Self: self}
	v.Lease.Holder = w.holder
	for i := range n {
		m := coord.MemberView{Member: cluster.Member{Node: name(i), Zone: []string{"ams", "fra"}[i%2]}, Health: cluster.Alive}
		if w.dead[m.Node] {
			m.Health = cluster.Dead
		}
		if l, ok := w.load[m.Node]; ok {
			m.Load = &wire.Load{wire.LoadLevel: l}
		}
		v.Members = append(v.Members, m)
	}
	return v
}

func name(i int) cluster.NodeID { return cluster.NodeID(fmt.Sprintf("n%02d", i+1)) }

func start(t *testing.T, n int) *hosts {
	t.Helper()
	w := &hosts{
		asked: map[cluster.NodeID]int{}, near: map[string]int{}, cut: map[string]bool{}, dead: map[cluster.NodeID]bool{}, load: map[cluster.NodeID]uint32{},
		holder: "n01", term: 1, changed: make(chan struct{}), hubs: map[cluster.NodeID]*Hub{},
	}
	routers := map[cluster.NodeID]*forward.Router{}
	for i := range n {
		self := name(i)
		r, err := forward.New(forward.Options{
			Self: self, Lease: func() forward.Lease {
				w.mu.Lock()
				defer w.mu.Unlock()
				return forward.Lease{Holder: w.holder, Holding: w.holder == self}
			},
			Dial: func(_ context.Context, to cluster.NodeID) (net.Conn, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.cut[string(self)+">"+string(to)] || w.dead[to] {
					return nil, net.ErrClosed
				}
				a, b := net.Pipe()
				go func() {
					routers[to].Serve(t.Context(), self, b)
					b.Close()
				}()
				return a, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		forward.Handle(r, forward.Zones, func(ctx context.Context, a forward.Asker, _ forward.None) (out api.Zones, err error) {
			slow := time.Duration(0)
			w.set(func() { w.asked[a.From]++; slow = w.slow; out = api.Zones{Holder: self, Term: w.term} })
			select {
			case <-time.After(slow):
			case <-ctx.Done():
				err = ctx.Err()
			}
			return out, err
		})
		forward.Handle(r, forward.WorkerGroups, func(_ context.Context, a forward.Asker, _ forward.None) (out api.Workers, err error) {
			w.set(func() { w.asked[a.From]++; out = api.Workers{Holder: self, Term: w.term} })
			return out, nil
		})
		forward.Handle(r, forward.WatchLoad, func(_ context.Context, a forward.Asker, q forward.LoadWatch) (out api.LoadLive, err error) {
			w.set(func() { w.asked[a.From]++ })
			out.Next = fmt.Sprint(time.Now().UnixMilli()) // all the time there is more
			if q.Run == gone {
				err = api.Errorf(api.CodeNotFound, "no load test %s", q.Run)
			}
			return out, err
		})
		h := New(Options{
			View: func() *coord.View { return w.view(self, n) },
			Workers: func(ctx context.Context) (api.Workers, error) {
				return forward.AskHolderOnce(ctx, r, forward.WorkerGroups, "", forward.None{})
			},
			Changed: func() <-chan struct{} {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.changed
			},
			Router: r,
		})
		forward.Handle(r, forward.WorkerGroupsNear, func(ctx context.Context, a forward.Asker, q forward.None) (api.Workers, error) {
			w.set(func() { w.near[string(a.From)+">"+string(self)]++ })
			return h.workers.serve(ctx, a, q)
		})
		forward.Handle(r, forward.ZonesNear, func(ctx context.Context, a forward.Asker, q forward.None) (api.Zones, error) {
			w.set(func() { w.near[string(a.From)+">"+string(self)]++ })
			return h.zones.serve(ctx, a, q)
		})
		forward.Handle(r, forward.WatchLoadNear, func(ctx context.Context, a forward.Asker, q forward.LoadWatch) (api.LoadLive, error) {
			w.set(func() { w.near[string(a.From)+">"+string(self)]++ })
			return h.serveLoad(ctx, a, q)
		})
		routers[self], w.hubs[self] = r, h
	}
	return w
}

// watch has hosts look each second for a while, as watches do, at times of their own.
func (w *hosts) watch(t *testing.T, d time.Duration, list ...cluster.NodeID) {
	t.Helper()
	var all sync.WaitGroup
	for i, n := range list {
		all.Go(func() {
			time.Sleep(time.Duration(i*37) * time.Millisecond)
			for began := time.Now(); time.Since(began) < d; time.Sleep(time.Second) {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				z, err := w.hubs[n].Judged(ctx)
				g, err2 := w.hubs[n].WorkerGroups(ctx)
				cancel()
				if err != nil || err2 != nil || z.Holder == "" || g.Holder == "" {
					t.Errorf("%s: %+v %+v %v %v", n, z, g, err, err2)
				}
			}
		})
	}
	all.Wait()
}

// crossed is how often hosts of fra asked the holder, and which did, since the last call.
func (w *hosts) crossed() (n int, who []cluster.NodeID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for node, k := range w.asked {
		if (node[2]-'0')%2 == 0 {
			n, who = n+k, append(who, node)
		}
	}
	clear(w.asked)
	slices.Sort(who)
	return n, who
}

var fra = []cluster.NodeID{"n02", "n04", "n06", "n08"}

// TestOncePerZone: however many hosts of a zone have watchers, one asks the holder, about as
// often as it would for its own; those of the holder's zone ask it themselves.
func TestOncePerZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, 8)
		w.watch(t, 30*time.Second, fra...)
		// Two questions a second for one host; what three others ask between goes on from
		// what was said up to 0.9 s before.
		if n, who := w.crossed(); len(who) != 1 || who[0] != "n02" || n > 2*34 || n < 2*25 {
			t.Errorf("%v asked the holder %d times in 30 s", who, n)
		}
		if w.near["n08>n02"] < 50 || w.near["n02>n04"]+w.near["n06>n04"] > 0 {
			t.Errorf("%v", w.near)
		}
		w.set(func() { clear(w.near) })
		w.watch(t, 5*time.Second, "n01", "n03", "n05")
		if len(w.near) > 0 || w.asked["n03"] == 0 || w.asked["n05"] == 0 {
			t.Errorf("in the holder's zone: %v, %v", w.near, w.asked)
		}
		w.crossed()
		w.set(func() { w.holder = "n06" })
		w.watch(t, 5*time.Second, fra...)
		if _, who := w.crossed(); !slices.Equal(who, fra) {
			t.Errorf("the holder came to the zone, and %v ask it", who)
		}
	})
}

// Two load tests; there is only one.
var going, gone = event.NewLoadID("user:ann", "going"), event.NewLoadID("user:ann", "gone")

// TestLoadsCrossOnce: each host of a zone follows a load test by itself, from its own position,
// and what was counted crosses to the zone about as often as one of them looks.
func TestLoadsCrossOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, 8)
		follow := func(d time.Duration, list ...cluster.NodeID) {
			var all sync.WaitGroup
			for i, n := range list {
				all.Go(func() {
					time.Sleep(time.Duration(i*290) * time.Millisecond)
					after := ""
					for began := time.Now(); time.Since(began) < d; time.Sleep(time.Second) {
						x, err := w.hubs[n].WatchLoad(t.Context(), forward.LoadWatch{Run: going, After: after})
						if err != nil || x.Next <= after {
							t.Errorf("%s: %q after %q: %v", n, x.Next, after, err)
						}
						if at := time.UnixMilli(number(t, x.Next)); time.Since(at) > countedFor {
							t.Errorf("%s is told what was counted %s ago", n, time.Since(at))
						}
						after = x.Next
					}
				})
			}
			all.Wait()
		}
		follow(30*time.Second, fra...)
		if n, who := w.crossed(); len(who) != 1 || who[0] != "n02" || n > 35 {
			t.Errorf("%v asked the holder %d times in 30 s", who, n)
		}
		if w.near["n08>n02"] < 25 {
			t.Errorf("%v", w.near)
		}
		w.set(func() { clear(w.near) })
		follow(5*time.Second, "n01", "n03", "n05")
		if len(w.near) > 0 || w.asked["n03"] < 4 || w.asked["n05"] < 4 {
			t.Errorf("in the holder's zone: %v, %v", w.near, w.asked)
		}
		// Who asks for the zone is lost: each asks the next one then.
		w.set(func() { w.dead["n02"] = true; clear(w.asked) })
		follow(10*time.Second, fra[1:]...)
		if _, who := w.crossed(); !slices.Equal(who, []cluster.NodeID{"n04"}) {
			t.Errorf("%v asked the holder", who)
		}
		// That there is no such test is an answer, and no fault of who says it.
		for range 3 {
			if _, err := w.hubs["n06"].WatchLoad(t.Context(), forward.LoadWatch{Run: gone}); !api.IsCode(err, api.CodeNotFound) {
				t.Errorf("no such test: %v", err)
			}
		}
		if relay, ok := w.hubs["n06"].ToHolder(); !ok || relay != "n04" {
			t.Errorf("%s is asked next", relay)
		}
		if n := len(w.hubs["n04"].counted.all); n == 0 || n > maxCounted {
			t.Errorf("%d answers are kept", n)
		}
	})
}

// TestCountedOnce: who asks while somebody asks waits for the same answer; one that says nothing
// new is soon asked for again, one that is an error at once.
func TestCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		a := &answer{done: make(chan struct{}), at: now, out: api.LoadLive{Next: "2"}}
		if a.old("1", now.Add(time.Hour)) {
			t.Error("one that is waited for is old")
		}
		close(a.done)
		for _, c := range []struct {
			after string
			err   error
			ago   time.Duration
			want  bool
		}{
			{"1", nil, countedFor - 1, false}, {"1", nil, countedFor, true}, {"2", nil, freshMin - 1, false}, {"2", nil, freshMin, true}, {"1", context.Canceled, 0, true},
		} {
			if a.err = c.err; a.old(c.after, now.Add(c.ago)) != c.want {
				t.Errorf("%+v", c)
			}
		}
		var c counted
		for i := range 3 * maxCounted {
			c.put(countedSince{after: fmt.Sprint(i)}, &answer{done: make(chan struct{})})
		}
		if n := len(c.all); n > maxCounted {
			t.Errorf("%d are kept", n)
		}
	})
}

func number(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNewsIsNotOld: what is told is no older than the last move of the log and the two looks
// that it takes.
func TestNewsIsNotOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, 8)
		get := func(n cluster.NodeID) cluster.Term {
			z, err := w.hubs[n].Judged(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return z.Term
		}
		for i := range 20 {
			w.moved()
			want := w.term
			time.Sleep(freshMin)
			for _, n := range fra {
				if got := get(n); got != want {
					t.Errorf("round %d: %s is told %d, want %d", i, n, got, want)
				}
			}
		}
		before := w.asked["n02"]
		for range 100 { // it moves on all the time
			w.moved()
			var all sync.WaitGroup
			for _, n := range fra {
				all.Go(func() { get(n) })
			}
			all.Wait()
			time.Sleep(10 * time.Millisecond)
		}
		if n := w.asked["n02"] - before; n > 8 {
			t.Errorf("%d questions in a second", n)
		}
	})
}

// TestSlowHolder: those who wait for the same answer share it.
func TestSlowHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, 8)
		w.slow = 700 * time.Millisecond
		began := time.Now()
		var all sync.WaitGroup
		for _, n := range fra {
			all.Go(func() {
				if _, err := w.hubs[n].Judged(t.Context()); err != nil {
					t.Error(err)
				}
			})
			all.Go(func() { time.Sleep(300 * time.Millisecond); w.moved() })
		}
		all.Wait()
		if n, _ := w.crossed(); n != 1 || time.Since(began) > time.Second {
			t.Errorf("%d questions, all answered after %s", n, time.Since(began))
		}
	})
}

// TestRelayFails: who asks for the zone may die, be cut off from the holder or from some, or
// be overloaded, and all are told all the same.
func TestRelayFails(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(w *hosts)
		gone bool             // n02 has no watchers any more
		asks []cluster.NodeID // who asks the holder in the end; others only where they try n02 again
	}{
		"dead":                {func(w *hosts) { w.dead["n02"] = true }, true, []cluster.NodeID{"n04"}},
		"overloaded":          {func(w *hosts) { w.load["n02"] = 2 }, false, []cluster.NodeID{"n02", "n04"}},
		"elevated":            {func(w *hosts) { w.load["n02"] = 1 }, false, []cluster.NodeID{"n02"}},
		"not reached by one":  {func(w *hosts) { w.cut["n06>n02"] = true }, false, []cluster.NodeID{"n02"}},
		"not reached by all":  {func(w *hosts) { w.cut["n04>n02"], w.cut["n06>n02"], w.cut["n08>n02"] = true, true, true }, false, []cluster.NodeID{"n02", "n04"}},
		"cut off from others": {func(w *hosts) { w.cut["n02>n01"] = true }, true, []cluster.NodeID{"n04"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, 8)
				w.watch(t, 5*time.Second, fra...)
				w.set(func() { c.do(w) })
				rest := slices.DeleteFunc(slices.Clone(fra), func(n cluster.NodeID) bool { return n == "n02" && c.gone })
				w.watch(t, time.Minute, rest...) // and none of them is without an answer
				w.crossed()
				w.watch(t, 20*time.Second, rest...)
				for _, n := range fra {
					k, asks := w.asked[n], slices.Contains(c.asks, n)
					if asks != (k > 4) || k > 2*23 {
						t.Errorf("%s asked the holder %d times in 20 s", n, k)
					}
				}
			})
		})
	}
}

// TestNoHolder: while there is none everybody hears so, and nobody is blamed for it.
func TestNoHolder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, 8)
		w.watch(t, 3*time.Second, fra...)
		w.set(func() { w.holder = "" })
		time.Sleep(2 * time.Second)
		for _, n := range fra {
			if _, err := w.hubs[n].Judged(t.Context()); !api.IsCode(err, api.CodeNoHolder) {
				t.Errorf("%s: %v", n, err)
			}
		}
		w.set(func() { w.holder = "n03" })
		w.crossed()
		time.Sleep(time.Second)
		w.watch(t, 5*time.Second, fra...)
		if _, who := w.crossed(); !slices.Equal(who, []cluster.NodeID{"n02"}) {
			t.Errorf("%v ask the holder", who)
		}
	})
}

// TestRelaysOf: without a zone, or where all are in it, a host asks by itself; no host has one
// behind it by name ask for it.
func TestRelaysOf(t *testing.T) {
	w := start(t, 8)
	v := w.view("n06", 8)
	if got := relaysOf(v); !slices.Equal(got, []cluster.NodeID{"n02", "n04"}) {
		t.Errorf("%v", got)
	}
	if got := relaysOf(w.view("n02", 8)); got != nil {
		t.Errorf("the first of its zone: %v", got)
	}
	for _, zone := range []string{"fra", ""} {
		for i := range v.Members {
			v.Members[i].Zone = zone
		}
		if got := relaysOf(v); got != nil {
			t.Errorf("all are in %q: %v", zone, got)
		}
	}
	if got := relaysOf(&coord.View{Self: "n09"}); got != nil {
		t.Errorf("no member: %v", got)
	}
}
