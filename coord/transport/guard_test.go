package transport

import (
	"testing"
	"time"
)

// TestGuard: what ended makes room, and nobody's share is another's.
func TestGuard(t *testing.T) {
	now := time.Second
	refused := 0
	g := newGuard(Limits{Peer: 2, All: 3, Rate: 1, Burst: 4}, func() time.Duration { return now }, func() { refused++ }, nil)
	for i, want := range []bool{true, true, false} {
		if g.enter("a") != want {
			t.Errorf("stream %d of a: %t", i, !want)
		}
	}
	if !g.enter("b") || g.enter("c") {
		t.Error("three in all")
	}
	g.exit("a")
	if !g.enter("c") {
		t.Error("no room after one ended")
	}
	g.exit("c")
	g.exit("b")
	g.exit("a")
	for range 2 {
		if !g.enter("a") {
			t.Error("a has four at once")
		}
	}
	g.exit("a")
	if g.enter("a") {
		t.Error("a fifth within the second")
	}
	now += time.Second
	if !g.enter("a") {
		t.Error("none a second later")
	}
	if len(g.running) != 1 || g.total != 2 {
		t.Errorf("%v running, %d", g.running, g.total)
	}
}
