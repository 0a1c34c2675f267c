package linkwatch

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/forward/zonewatch"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/realtime/links"
)

// hosts is a net of hosts that see each other as they are told to.
type hosts struct {
	mu     sync.Mutex
	health map[string]cluster.Health     // "a>b"; none: alive
	down   map[cluster.NodeID]bool       // cannot be reached
	ended  map[string]bool               // "a>b": a knows that b said that it stops
	open   map[cluster.NodeID]int        // streams that it serves
	few    map[cluster.NodeID]bool       // what it was asked for last
	from   map[string]int                // "a>b": streams that b serves a
	zones  map[cluster.NodeID]string     // none: they are in none
	old    map[cluster.NodeID]bool       // does not know how to pass on
	cut    map[string]bool               // "a>b": a does not reach b
	conns  map[cluster.NodeID][]net.Conn // to it
	hubs   map[cluster.NodeID]*Hub
}

func (w *hosts) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *hosts) streams() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.open {
		n += k
	}
	return n
}

// start returns hosts n01 to n, each with a hub and a way to all others.
func start(t *testing.T, n int, zones ...string) *hosts {
	t.Helper()
	w := &hosts{
		health: map[string]cluster.Health{}, down: map[cluster.NodeID]bool{}, ended: map[string]bool{}, open: map[cluster.NodeID]int{}, few: map[cluster.NodeID]bool{}, hubs: map[cluster.NodeID]*Hub{},
		from: map[string]int{}, zones: map[cluster.NodeID]string{}, old: map[cluster.NodeID]bool{}, cut: map[string]bool{}, conns: map[cluster.NodeID][]net.Conn{},
	}
	routers := map[cluster.NodeID]*forward.Router{}
	var names []cluster.NodeID
	for i := range n {
		names = append(names, cluster.NodeID(fmt.Sprintf("n%02d", i+1)))
		if len(zones) > 0 {
			w.zones[names[i]] = zones[i%len(zones)]
		}
	}
	for _, self := range names {
		r, err := forward.New(forward.Options{
			Self: self, Lease: func() forward.Lease { return forward.Lease{} },
			Dial: func(_ context.Context, to cluster.NodeID) (net.Conn, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				if w.down[to] || w.cut[string(self)+">"+string(to)] {
					return nil, net.ErrClosed
				}
				a, b := net.Pipe()
				w.conns[to] = append(w.conns[to], a)
				go routers[to].Serve(t.Context(), self, b)
				return a, nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		view := func() *coord.View {
			w.mu.Lock()
			defer w.mu.Unlock()
			v := &coord.View{Self: self}
			for _, node := range names {
				m := coord.MemberView{Member: cluster.Member{Node: node, Zone: w.zones[node]}, Health: cluster.Alive, Path: "direct", RTT: time.Millisecond}
				if state, ok := w.health[string(self)+">"+string(node)]; ok {
					m.Health = state
				}
				m.Stopped = w.ended[string(self)+">"+string(node)]
				v.Members = append(v.Members, m)
			}
			return v
		}
		h := New(Options{
			Self: self, Router: r, View: view, Relay: zonewatch.NewRelays(view),
			Peers: func() (list []mesh.PeerStatus) {
				bytes := uint64(time.Since(began).Seconds() * 1000)
				for _, node := range names {
					list = append(list, mesh.PeerStatus{Node: node, Rx: bytes, Tx: 2 * bytes, LastHandshake: began, Reachable: true})
				}
				return list
			},
		})
		forward.HandleStream(r, forward.Links, func(ctx context.Context, a forward.Asker, req forward.WatchLinks, send func(links.Report) error) error {
			key := string(a.From) + ">" + string(self)
			w.set(func() { w.open[self]++; w.from[key]++; w.few[self] = req.Few })
			defer w.set(func() { w.open[self]--; w.from[key]-- })
			return h.Serve(ctx, a, req, send)
		})
		forward.HandleStream(r, forward.LinksNear, func(ctx context.Context, a forward.Asker, req forward.WatchOthers, send func(links.Others) error) error {
			old := false
			w.set(func() { old = w.old[self] })
			if old {
				return api.Errorf(api.CodeInvalidRequest, "%s does not know that", self)
			}
			return h.ServeNear(ctx, a, req, send)
		})
		w.hubs[self], routers[self] = h, r
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.Run(ctx) }()
		t.Cleanup(func() {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
	return w
}

// show asks for a while, as a feed does, and returns the last answer by key.
func (w *hosts) show(t *testing.T, at, of cluster.NodeID, d time.Duration) map[string]api.Link {
	t.Helper()
	out := map[string]api.Link{}
	for began := time.Now(); ; time.Sleep(time.Second) {
		list, err := w.hubs[at].Links(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		if time.Since(began) < d {
			continue
		}
		for _, l := range list.Links {
			out[string(l.From)+">"+string(l.To)] = l
		}
		return out
	}
}

// TestLinks: a host shows all half-edges while somebody asks, also those that differ on
// both sides, and who is silent is unknown, with when it was heard.
func TestLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, 5)
		time.Sleep(time.Minute)
		if n := w.streams(); n > 0 {
			t.Errorf("%d streams that nobody asked for", n)
		}
		w.health["n04>n05"] = cluster.Suspect
		got := w.show(t, "n02", "", 10*time.Second)
		if len(got) != 20 {
			t.Errorf("%d half-edges of 20", len(got))
		}
		if a, b := got["n04>n05"], got["n05>n04"]; a.State != cluster.Suspect || b.State != cluster.Alive {
			t.Errorf("%v and %v", a, b)
		}
		l := got["n03>n01"]
		if l.Path != "direct" || l.RTTSeconds == nil || *l.RTTSeconds != 0.001 || *l.ReceiveBytesPerSecond != 1000 || *l.TransmitBytesPerSecond != 2000 || *l.HandshakeSeconds < 60 {
			t.Errorf("%+v", l)
		}
		if age := time.Since(*l.ReportedAt); age > 6*time.Second {
			t.Errorf("reported %v ago", age)
		}
		w.set(func() { w.health["n02>n03"], w.down["n03"] = cluster.Suspect, true })
		got = w.show(t, "n02", "", 3*time.Second) // a look at the own halves is 2 s old at most
		l = got["n03>n01"]
		if age := time.Since(*l.ReportedAt); l.State != "unknown" || l.Path != "" || l.RTTSeconds != nil || age > 15*time.Second {
			t.Errorf("of a host that has just fallen silent %+v, %v ago", l, age)
		}
		if l := got["n02>n03"]; l.State != cluster.Suspect {
			t.Errorf("what the asked host sees of it: %v", l)
		}
		w.set(func() { w.health["n02>n03"] = cluster.Dead })
		got = w.show(t, "n02", "", 30*time.Second)
		l = got["n03>n01"]
		if age := time.Since(*l.ReportedAt); l.State != "unknown" || l.RTTSeconds != nil || age < 15*time.Second || age > 40*time.Second {
			t.Errorf("of a silent host %+v, %v ago", l, age)
		}
		if l := got["n01>n03"]; l.State != cluster.Alive {
			t.Errorf("what others see of it: %v", l)
		}
		w.set(func() { delete(w.health, "n02>n03"); w.down["n03"] = false })
		if l := w.show(t, "n02", "", 10*time.Second)["n03>n01"]; l.State != cluster.Alive {
			t.Errorf("of a host that is back %v", l)
		}
		time.Sleep(20 * time.Second)
		if n := w.streams(); n > 0 {
			t.Errorf("%d streams 20 s after the last question", n)
		}
	})
}

// TestManyHosts: among many hosts only what is not well is told, and all of a host that
// was asked for.
func TestManyHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, 70)
		w.health["n04>n05"] = cluster.Suspect
		got := w.show(t, "n02", "", 20*time.Second)
		if len(got) != 1 || got["n04>n05"].State != cluster.Suspect {
			t.Errorf("%d half-edges, want one: %v", len(got), got["n04>n05"])
		}
		if !w.few["n05"] {
			t.Error("a host was asked for all its half-edges")
		}
		got = w.show(t, "n02", "n05", 10*time.Second)
		if len(got) != 70 || got["n05>n70"].State != cluster.Alive { // 69 of its own, and n04's
			t.Errorf("%d half-edges of a host, want 70", len(got))
		}
		if w.few["n05"] || !w.few["n06"] {
			t.Errorf("asked for few: %v, %v", w.few["n05"], w.few["n06"])
		}
		time.Sleep(time.Minute)
	})
}

// TestStopped: of a host that stopped, who answers says so of every half that leads to
// it and is dead, whoever's word that is; of one that others still see, it does not.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, 3)
		w.set(func() {
			w.down["n03"] = true
			w.health["n01>n03"], w.health["n02>n03"] = cluster.Dead, cluster.Dead
		})
		if l := w.show(t, "n01", "", 5*time.Second)["n02>n03"]; l.State != cluster.Dead || l.Stopped {
			t.Errorf("before anybody knows why: %+v", l)
		}
		w.set(func() { w.ended["n01>n03"] = true }) // n02 did not hear it
		all := w.show(t, "n01", "", 5*time.Second)
		for _, key := range []string{"n01>n03", "n02>n03"} {
			if l := all[key]; l.State != cluster.Dead || !l.Stopped {
				t.Errorf("%s: %+v", key, l)
			}
		}
		if l := all["n01>n02"]; l.Stopped {
			t.Errorf("n02 lives: %+v", l)
		}
		if l := w.show(t, "n02", "", 5*time.Second)["n02>n03"]; l.Stopped {
			t.Errorf("n02 did not hear it: %+v", l)
		}
		w.set(func() { w.health["n02>n03"] = cluster.Alive })
		if l := w.show(t, "n01", "", 5*time.Second)["n02>n03"]; l.State != cluster.Alive || l.Stopped {
			t.Errorf("n02 sees it: %+v", l)
		}
	})
}
