package linkwatch

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// showAll has all hosts asked for a while, and returns what each of them last answered.
func (w *hosts) showAll(t *testing.T, of cluster.NodeID, d time.Duration) map[cluster.NodeID]map[string]api.Link {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	out := map[cluster.NodeID]map[string]api.Link{}
	for node := range w.hubs {
		all.Go(func() {
			got := w.show(t, node, of, d)
			mu.Lock()
			defer mu.Unlock()
			out[node] = got
		})
	}
	all.Wait()
	return out
}

// crossing says for each host how many streams it serves to each other zone.
func (w *hosts) crossing() map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := map[string]int{}
	for key, n := range w.from {
		a, b, _ := strings.Cut(key, ">")
		if za, zb := w.zones[cluster.NodeID(a)], w.zones[cluster.NodeID(b)]; za != zb && n > 0 {
			out[za+">"+b] += n
		}
	}
	return out
}

// wantCrossing expects that each of n hosts tells each other zone once.
func (w *hosts) wantCrossing(t *testing.T, n int) {
	t.Helper()
	got := w.crossing()
	if len(got) != n {
		t.Errorf("%d times a host tells another zone, want %d: %v", len(got), n, got)
	}
	for key, k := range got {
		if k != 1 {
			t.Errorf("%s: %d streams", key, k)
		}
	}
}

// TestOncePerZone: what a host sees crosses to each other zone once though all hosts there
// show it, and they show the same.
func TestOncePerZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, 12, "ams", "fra", "") // n01, n04, n07, n10 are in ams, and so on
		w.health["n04>n05"] = cluster.Suspect
		all := w.showAll(t, "", 12*time.Second)
		for node, got := range all {
			if len(got) != 12*11 {
				t.Errorf("%s shows %d half-edges of %d", node, len(got), 12*11)
			}
			for key, l := range got {
				want := cluster.Alive
				switch {
				case key == "n04>n05":
					want = cluster.Suspect
				case node == "n04" && l.From == "n05":
					want = "unknown" // who suspects a host does not believe it
				}
				if l.State != want || time.Since(*l.ReportedAt) > 10*time.Second {
					t.Errorf("%s shows %s as %s, told %s ago", node, key, l.State, time.Since(*l.ReportedAt))
				}
			}
		}
		zoned := 0
		for key, n := range w.crossing() { // hosts without zone ask by themselves
			if !strings.HasPrefix(key, ">") {
				if zoned++; n != 1 {
					t.Errorf("%s: %d streams", key, n)
				}
			}
		}
		if zoned != 2*8 {
			t.Errorf("%d times a host tells ams or fra, want 16", zoned)
		}
		time.Sleep(time.Minute)
		if n := w.streams(); n > 0 {
			t.Errorf("%d streams a minute after the last question", n)
		}
	})
}

// lose breaks all streams to a host; f says why there will be no others.
func (w *hosts) lose(node cluster.NodeID, f func()) {
	w.set(func() {
		f()
		for _, c := range w.conns[node] {
			c.Close()
		}
	})
}

// TestRelayFails: who passes on what others see may die, be too old, or not be reached by some,
// and they show it all the same; after that it crosses once again.
func TestRelayFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, 6, "ams", "fra") // n01, n03, n05 are in ams
		w.showAll(t, "", 12*time.Second)
		w.wantCrossing(t, 6)
		well := func(what string) {
			t.Helper()
			got := w.showAll(t, "", 40*time.Second)["n05"]
			for _, key := range []string{"n02>n04", "n03>n06", "n06>n03"} {
				if got[key].State != cluster.Alive {
					t.Errorf("%s: %s is %s", what, key, got[key].State)
				}
			}
		}
		w.lose("n01", func() {
			w.down["n01"] = true
			for _, n := range []string{"n02", "n03", "n04", "n05", "n06"} {
				w.health[n+">n01"] = cluster.Dead
			}
		})
		well("n01 is dead")
		if n := w.crossing()["ams>n02"]; n != 2 { // n01, which thinks that it lives, and n03
			t.Errorf("n02 tells ams %d times", n)
		}
		w.lose("n03", func() { w.old["n03"] = true })
		well("n03 does not know how")
		if n := w.crossing()["ams>n02"]; n != 3 {
			t.Errorf("n02 tells ams %d times", n)
		}
		w.lose("n03", func() { w.cut["n05>n03"] = true })
		got := w.showAll(t, "", 40*time.Second)["n05"]
		if a, b := got["n02>n04"], got["n03>n04"]; a.State != cluster.Alive || b.State != "unknown" {
			t.Errorf("of hosts elsewhere %s, of n03, which is not reached, %s", a.State, b.State)
		}
		w.set(func() {
			clear(w.down)
			clear(w.old)
			clear(w.cut)
			clear(w.health)
		})
		time.Sleep(time.Minute)
		w.showAll(t, "", 20*time.Second)
		w.wantCrossing(t, 6)
	})
}

// TestRelayHearsNothing: a relay that is cut off from a host elsewhere says nothing of it, and
// those who hear that one ask it.
func TestRelayHearsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, 6, "ams", "fra")
		w.set(func() { w.cut["n01>n02"] = true })
		all := w.showAll(t, "", 40*time.Second)
		if l := all["n05"]["n02>n06"]; l.State != cluster.Alive {
			t.Errorf("n05 shows %+v", l)
		}
		if l := all["n01"]["n02>n06"]; l.State != "unknown" {
			t.Errorf("n01 shows %+v", l)
		}
		if got := w.crossing(); got["ams>n04"] != 1 || got["ams>n02"] != 2 {
			t.Errorf("%v", got)
		}
	})
}

// TestManyHostsOncePerZone: among many hosts what is not well crosses once, and all of a host
// that somebody asked for.
func TestManyHostsOncePerZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, 70, "ams", "fra")
		w.health["n04>n05"] = cluster.Suspect
		if got := w.show(t, "n03", "", 20*time.Second); len(got) != 1 || got["n04>n05"].State != cluster.Suspect {
			t.Errorf("%d half-edges, want one: %v", len(got), got["n04>n05"])
		}
		if n := w.crossing()["ams>n06"]; n != 1 {
			t.Errorf("n06 tells ams %d times", n)
		}
		got := w.show(t, "n03", "n06", 15*time.Second)
		if len(got) != 69 || got["n06>n70"].State != cluster.Alive {
			t.Errorf("%d half-edges of a host, want 69", len(got))
		}
		time.Sleep(time.Minute)
	})
}
