package member

import (
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

var lan = Timing{Suspect: 3 * time.Second, Grace: 0, Dead: DefaultDead}

func TestDetectorLife(t *testing.T) {
	d := NewDetector(Timing{Suspect: 30 * time.Second, Grace: 90 * time.Second, Dead: DefaultDead})
	d.Add("a", 0)
	if d.Health("a") != cluster.Joining || d.Health("x") != "" {
		t.Fatal("wrong health at the start")
	}
	if at, ok := d.Deadline(0); !ok || at != DefaultDead {
		t.Fatalf("first deadline %s, %t", at, ok)
	}
	if ts := d.Tick(DefaultDead - 1); len(ts) != 0 || d.Health("a") != cluster.Joining || d.Present("a", DefaultDead-1) {
		t.Fatalf("a host that was never heard is suspected: %v", ts)
	}
	ts := d.Tick(DefaultDead)
	if _, heard := d.LastHeard("a"); len(ts) != 1 || ts[0].To != cluster.Dead || heard || d.Present("a", DefaultDead) {
		t.Fatalf("a host that is not heard joins for ever: %v", ts)
	}
	base := time.Hour
	if tr, ok := d.Heard("a", base); !ok || tr != (Transition{"a", cluster.Dead, cluster.Alive}) {
		t.Fatalf("%v, %t", tr, ok)
	}
	for _, c := range []struct {
		after   time.Duration
		health  cluster.Health
		present bool
	}{
		{30*time.Second - 1, cluster.Alive, true},
		{30 * time.Second, cluster.Suspect, true},
		{120*time.Second - 1, cluster.Suspect, true},
		{120 * time.Second, cluster.Dead, false},
		{time.Hour, cluster.Dead, false},
	} {
		d.Tick(base + c.after)
		if got := d.Health("a"); got != c.health || d.Present("a", base+c.after) != c.present {
			t.Errorf("after %s: %s, present %t", c.after, got, d.Present("a", base+c.after))
		}
	}
	if tr, ok := d.Heard("a", 3*time.Hour); !ok || tr.To != cluster.Alive {
		t.Errorf("the dead came back: %v, %t", tr, ok)
	}
	if tr, ok := d.Leaving("a"); !ok || tr.To != cluster.Dead || d.Present("a", 3*time.Hour) {
		t.Errorf("stopped: %v, %t", tr, ok)
	}
	if !d.Stopped("a") {
		t.Error("that it stopped is not known")
	}
	if ts := d.Tick(9 * time.Hour); len(ts) != 0 {
		t.Errorf("a host that stopped is judged: %v", ts)
	}
	if d.Heard("a", 9*time.Hour); d.Stopped("a") {
		t.Error("a host that is heard has stopped")
	}
	d.Tick(10 * time.Hour)
	if d.Health("a") != cluster.Dead || d.Stopped("a") {
		t.Errorf("fell silent: %s, stopped %t", d.Health("a"), d.Stopped("a"))
	}
	if tr, ok := d.Leaving("a"); ok || !d.Stopped("a") { // it was cut off, and ended before it was heard again
		t.Errorf("%v", tr)
	}
	d.Forget("a")
	if _, ok := d.Leaving("a"); ok || d.Health("a") != "" {
		t.Error("a forgotten host is known")
	}
}

func TestDetectorGraceEndsPresenceBeforeDeath(t *testing.T) {
	d := NewDetector(lan)
	d.Heard("a", 0)
	if !d.Present("a", 3*time.Second-1) || d.Present("a", 3*time.Second) {
		t.Error("presence does not end with suspect + grace")
	}
	ts := d.Tick(3 * time.Second)
	if len(ts) != 1 || ts[0].To != cluster.Suspect {
		t.Errorf("%v", ts)
	}
	if at, ok := d.Deadline(3 * time.Second); !ok || at != DefaultDead {
		t.Errorf("next deadline %s, %t", at, ok)
	}
}

func TestDetectorOrderAndOldNews(t *testing.T) {
	d := NewDetector(lan)
	for _, n := range []cluster.NodeID{"c", "a", "b"} {
		d.Heard(n, 10*time.Second)
	}
	d.Heard("a", 5*time.Second)
	if at, _ := d.LastHeard("a"); at != 10*time.Second {
		t.Errorf("an older sign of life counts: %s", at)
	}
	var nodes []cluster.NodeID
	for _, tr := range d.Tick(20 * time.Second) {
		nodes = append(nodes, tr.Node)
	}
	if !slices.Equal(nodes, []cluster.NodeID{"a", "b", "c"}) {
		t.Errorf("transitions of %v", nodes)
	}
	d.Heard("a", 21*time.Second)
	d.Shift(time.Hour)
	if ts := d.Tick(time.Hour + 22*time.Second); len(ts) != 0 || !d.Present("a", time.Hour+22*time.Second) {
		t.Errorf("own sleep counts as silence: %v", ts)
	}
}

// TestDetectorDeadline: ticking only at deadlines finds every change at the
// moment when it happens.
func TestDetectorDeadline(t *testing.T) {
	d := NewDetector(Timing{Suspect: 3 * time.Second, Grace: 2 * time.Second, Dead: 9 * time.Second})
	d.Heard("a", time.Second)
	d.Heard("b", 2*time.Second)
	var got []time.Duration
	for now := 2 * time.Second; ; {
		at, ok := d.Deadline(now)
		if !ok {
			break
		}
		now = at
		d.Tick(now)
		got = append(got, now/time.Second)
	}
	if want := []time.Duration{4, 5, 6, 7, 10, 11}; !slices.Equal(got, want) {
		t.Errorf("deadlines at %v s, want %v", got, want)
	}
	if d.Health("a") != cluster.Dead || d.Health("b") != cluster.Dead {
		t.Error("not dead in the end")
	}
}

// TestJudged: of a judged host verdicts decide, and its silence counts from
// the last sign of life that a verdict names.
func TestJudged(t *testing.T) {
	const s = time.Second
	d := NewDetector(Timing{Suspect: 3 * s, Grace: 0, Dead: 120 * s})
	d.Add("a", 0)
	d.Heard("a", s)
	d.Judge("a", true, s)
	if ts := d.Tick(100 * s); len(ts) > 0 || !d.Present("a", 100*s) {
		t.Fatalf("silence counts: %v", ts)
	}
	if at, ok := d.Deadline(100 * s); ok {
		t.Errorf("deadline %s of a host that no verdict is about", at)
	}
	if tr, ok := d.Lost("a", 98*s, 103*s); !ok || tr.To != cluster.Suspect {
		t.Errorf("lost: %v %t", tr, ok)
	}
	if d.Present("a", 103*s) {
		t.Error("a lost host is present")
	}
	if at, ok := d.Deadline(103 * s); !ok || at != 218*s {
		t.Errorf("deadline %s %t", at, ok)
	}
	if ts := d.Tick(217 * s); len(ts) > 0 {
		t.Errorf("dead too early: %v", ts)
	}
	if ts := d.Tick(218 * s); len(ts) != 1 || ts[0].To != cluster.Dead {
		t.Errorf("not dead: %v", ts)
	}
	if tr, ok := d.Back("a"); !ok || tr.To != cluster.Alive || !d.Present("a", 300*s) {
		t.Errorf("not back: %v %t", tr, ok)
	}

	// A verdict about a host that was heard later begins there; one of a host
	// that is not judged, or was never heard, is none.
	d.Heard("a", 310*s)
	d.Lost("a", 250*s, 311*s)
	if ts := d.Tick(429 * s); len(ts) > 0 {
		t.Errorf("dead by an old sign of life: %v", ts)
	}
	d.Add("b", 0)
	for _, n := range []cluster.NodeID{"b", "c"} {
		if _, ok := d.Lost(n, 1*s, 2*s); ok {
			t.Errorf("%s is lost", n)
		}
	}
	d.Judge("b", true, 3*s)
	if _, ok := d.Lost("b", 1*s, 4*s); ok || d.Health("b") != cluster.Joining {
		t.Error("a host that was never heard is lost")
	}
}

// TestJudgeKeepsHealth: who decides may change without a host coming to life
// or losing it by that alone.
func TestJudgeKeepsHealth(t *testing.T) {
	const s = time.Second
	d := NewDetector(Timing{Suspect: 3 * s, Dead: 120 * s})
	d.Heard("a", 0)
	d.Heard("b", 0)
	d.Tick(4 * s)
	d.Heard("b", 4*s)
	d.Judge("a", true, 4*s)
	d.Judge("b", true, 4*s)
	if ts := d.Tick(60 * s); len(ts) > 0 || d.Health("a") != cluster.Suspect || d.Present("a", 60*s) || !d.Present("b", 60*s) {
		t.Errorf("judged: %v, a is %s", ts, d.Health("a"))
	}
	d.Judge("a", false, 60*s)
	d.Judge("b", false, 60*s)
	if ts := d.Tick(62 * s); len(ts) > 0 || d.Health("a") != cluster.Suspect || d.Health("b") != cluster.Alive {
		t.Errorf("by silence again: %v", ts)
	}
	if ts := d.Tick(63 * s); len(ts) != 1 || ts[0].Node != "b" {
		t.Errorf("silence does not count again: %v", ts)
	}
}
