package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/stamps"
	"github.com/skein-project/skein/eventlog/wire"
)

// TestTakeBack has a host write with a clock that is two hours ahead, and take
// that back when it is right: until then all name its chain, and a catch-up that
// needs that host waits; afterwards it writes the facts again, and all logs agree.
func TestTakeBack(t *testing.T) {
	net := newNetwork(t)
	var off, found atomic.Int64
	promised := func() cluster.Term { return 8 }
	ao := testOptions(t.TempDir(), "a")
	ao.Wall = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
	ao.Promised, ao.Dial = promised, net.dialer("a")
	a, stop := start(t, ao)
	net.add("a", a)
	bo, co := testOptions(t.TempDir(), "b"), testOptions(t.TempDir(), "c")
	bo.Promised, co.Promised = promised, promised
	bo.OnAhead = func(stamps.Chain) { found.Add(1) }
	b, c := net.join(t, bo), net.join(t, co)
	for _, l := range []*Log{a, b, c} {
		l.SetVoters(voters("a", "b", "c"))
	}
	kept := mustAppend(t, a, note(1))[0]
	if _, err := waitStable(t, a, kept.Seq, patience); err != nil {
		t.Fatal(err)
	}
	off.Store(int64(2 * time.Hour))
	fact := event.Draft{Kind: event.KindPublishing, Body: event.Publishing{Publishing: true, Term: 7, Publisher: "a", Why: "holds the lease"}}
	mustAppend(t, a, note(2), fact, acting(8, 3))
	off.Store(0)

	for _, l := range []*Log{b, c} {
		if err := l.Sync(t.Context(), "a"); !errors.Is(err, wire.ErrPeer) {
			t.Fatalf("%v, want it refused", err)
		}
		if list := l.Ahead(); len(list) != 1 || list[0].Own || list[0].Source != kept.Source || list[0].Ahead < time.Hour {
			t.Errorf("ahead: %v", list)
		}
	}
	if list := a.Ahead(); len(list) != 1 || !list[0].Own || list[0].Seq != 4 {
		t.Errorf("ahead: %v", list)
	}
	if got := metric(t, b, "ahead_seconds", "node", "a"); got < 3600 {
		t.Errorf("metric says %v", got)
	}
	catchUp := func(most time.Duration, voters ...cluster.NodeID) error {
		ctx, cancel := context.WithTimeout(t.Context(), most)
		defer cancel()
		return b.CatchUp(ctx, 8, voters, 2)
	}
	if err := catchUp(200*time.Millisecond, "a", "b"); err == nil {
		t.Fatal("caught up with a chain that is refused")
	}
	if err := catchUp(patience, "a", "b", "c"); err != nil {
		t.Fatalf("the others wait for a chain that is refused: %v", err)
	}

	net.setDown("c", true)
	tail, _, err := a.Tail(t.Context())
	if err != nil || !tail.Authority || tail.Lack != 1 || tail.Rest > 0 || tail.Voters != 3 || tail.Majority != 2 {
		t.Errorf("%+v, %v", tail, err)
	}
	net.setDown("c", false)
	var cuts []audit.Cut
	eventually(t, "both others say that they lack it", func() bool {
		tail, cuts, err = a.Tail(t.Context())
		return err == nil && tail.Lack == 2
	})
	if tail.Agreed = stamps.Steady; stamps.TakeBack(tail) != "" || len(cuts) != 1 || cuts[0].Kept != kept.Seq || cuts[0].Source != kept.Source {
		t.Fatalf("%+v, %+v: %s", tail, cuts, stamps.TakeBack(tail))
	}
	o := audit.RepairOptions{Dir: ao.Dir, Cluster: testCluster, Self: "a", KeyOf: pubFor, Aside: filepath.Join(t.TempDir(), "damaged"), Now: time.Now()}
	if _, err := audit.TakeBack(o, cuts); err == nil {
		t.Fatal("taken back from a log that is open")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // once more after a crash
		o.Now = o.Now.Add(time.Second)
		if _, err := audit.TakeBack(o, cuts); err != nil {
			t.Fatal(err)
		}
	}
	a, _ = start(t, ao)
	net.add("a", a)
	a.SetVoters(voters("a", "b", "c"))
	again, err := a.TakenBack()
	if err != nil || len(again) != 1 || again[0].Kind != event.KindPublishing {
		t.Fatalf("%+v, %v", again, err)
	}
	mustAppend(t, a, append(again, note(5))...)
	if err := catchUp(patience, "a", "b"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the logs are equal", func() bool {
		return c.Sync(t.Context(), "a") == nil && a.Digest() == b.Digest() && b.Digest() == c.Digest()
	})
	for _, l := range []*Log{a, b, c} {
		if list := l.Ahead(); len(list) > 0 {
			t.Errorf("still ahead: %v", list)
		}
	}
	if left, err := a.Mend(t.Context(), "a"); err != nil || len(left) > 0 || found.Load() != 1 {
		t.Errorf("left to mend %v, %v; found %d times", left, err, found.Load())
	}
	var link event.Incarnation
	for e, err := range b.Read(event.SourceID{Node: "a", Inc: 2}, 1) {
		if err != nil || json.Unmarshal(e.Body, &link) != nil {
			t.Fatal(err)
		}
		break
	}
	ahead, rest, _ := strings.Cut(strings.TrimPrefix(link.Reason, "a/1 was "), " ")
	by, err := time.ParseDuration(ahead) // less than the offset by what passed until the others looked
	if link.Previous.Seq != kept.Seq || link.Previous.Hash != kept.Hash || err != nil || by > 2*time.Hour || by < time.Hour ||
		!strings.HasPrefix(rest, "ahead of the other hosts' clocks after seq 1") {
		t.Errorf("%+v, %v", link, err)
	}
}
