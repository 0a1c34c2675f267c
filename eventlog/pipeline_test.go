package eventlog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/replicate"
)

// gate holds up the syncs of a log while it is shut.
type gate struct {
	shut    atomic.Bool
	full    atomic.Bool // preallocation finds no room
	syncs   atomic.Int64
	entered chan struct{}
	leave   chan error    // what the sync returns
	over    chan struct{} // closed: it is open for good
}

// startGated starts a log and shuts the gate, with two appends in flight.
func startGated(t *testing.T) (l *Log, o Options, g *gate, flying [2]<-chan appended, stop func() error) {
	g = &gate{entered: make(chan struct{}), leave: make(chan error), over: make(chan struct{})}
	ffs := quickFS()
	ffs.set(func(op string, _ int) (err error) {
		switch {
		case op == "preallocate" && g.full.Load():
			return syscall.ENOSPC
		case op != "sync" || !g.shut.Load():
			return nil
		}
		g.syncs.Add(1)
		select {
		case g.entered <- struct{}{}:
		case <-g.over:
		}
		select {
		case err = <-g.leave:
		case <-g.over:
		}
		return err
	})
	o = testOptions(t.TempDir(), "n1")
	o.FS = ffs
	o.ReopenAfter = reopenAfter(t)
	l, stop = start(t, o)
	t.Cleanup(func() { close(g.over) })
	mustAppend(t, l, note(1))
	g.shut.Store(true)
	// One that comes alone is flushed by the writer itself; what comes meanwhile
	// is a batch of two.
	alone := appendLater(l, note(2))
	<-g.entered
	flying = [2]<-chan appended{appendLater(l, note(3)), appendLater(l, note(4))}
	eventually(t, "two appends queued", func() bool {
		l.w.in.mu.Lock()
		defer l.w.in.mu.Unlock()
		return len(l.w.in.urgent) == 2
	})
	g.leave <- nil
	<-g.entered
	if r := <-alone; r.err != nil {
		t.Fatal(r.err)
	}
	return l, o, g, flying, stop
}

type appended struct {
	events []event.Event
	err    error
}

func appendLater(l *Log, drafts ...event.Draft) <-chan appended {
	done := make(chan appended, 1)
	go func() {
		events, err := l.Append(context.Background(), drafts)
		done <- appended{events, err}
	}()
	return done
}

// staged waits until the writer has taken n requests that are not answered.
func staged(t *testing.T, l *Log, n int) {
	eventually(t, "requests staged", func() bool {
		l.w.in.mu.Lock()
		defer l.w.in.mu.Unlock()
		return l.w.in.taken == n && len(l.w.in.queue)+len(l.w.in.urgent) == 0
	})
}

func unanswered(t *testing.T, all ...<-chan appended) {
	t.Helper()
	for _, c := range all {
		select {
		case got := <-c:
			t.Fatalf("answered before its sync: %+v", got)
		default:
		}
	}
}

// durableSoFar is the seq of the last event before those in flight.
const durableSoFar = 2

// TestNothingOverlapsOnTheDisk holds a group in its sync: what comes meanwhile
// is neither written nor acknowledged, and goes to the disk as one group when
// the one before is durable.
func TestNothingOverlapsOnTheDisk(t *testing.T) {
	l, o, g, flying, stop := startGated(t)
	b, c := appendLater(l, note(77772)), appendLater(l, note(77773))
	staged(t, l, 4)
	unanswered(t, flying[0], flying[1], b, c)
	if h := l.Head(l.Source()); h.Seq != durableSoFar {
		t.Fatalf("readers see seq %d before its sync", h.Seq)
	}
	file, err := os.ReadFile(segmentPaths(t, o.Dir, l.Source())[0])
	if err != nil || !bytes.Contains(file, []byte(`"v4"`)) || bytes.Contains(file, []byte("v7777")) {
		t.Fatalf("while one group is synced, no other may be in the file: %v", err)
	}
	g.leave <- nil
	<-g.entered
	first := []appended{<-flying[0], <-flying[1]}
	unanswered(t, b, c)
	g.shut.Store(false)
	g.leave <- nil
	last := uint64(durableSoFar)
	for _, r := range append(first, <-b, <-c) {
		if r.err != nil {
			t.Fatal(r.err)
		}
		last = max(last, r.events[0].Seq)
	}
	if n := g.syncs.Load(); last != durableSoFar+4 || n != 3 {
		t.Fatalf("chain ends at seq %d after %d syncs, want one for each of three groups", last, n)
	}
	if err := stop(); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if r, err := audit.Verify(t.Context(), audit.VerifyOptions{Dir: o.Dir, Cluster: o.Cluster, KeyOf: pubFor}); err != nil || r.Events != last {
		t.Fatalf("verify: %+v, %v", r, err)
	}
}

// failSync fails the sync in flight while another append is staged: what is in
// flight is unknown, and what is staged certainly absent.
func failSync(t *testing.T, l *Log, g *gate, flying [2]<-chan appended) {
	b := appendLater(l, note(77772))
	staged(t, l, 3)
	g.shut.Store(false)
	g.leave <- syscall.EIO
	for _, c := range flying {
		if r := <-c; !errors.Is(r.err, replicate.ErrUnknown) {
			t.Fatalf("append whose sync failed: %v, want replicate.ErrUnknown", r.err)
		}
	}
	if r := <-b; !errors.Is(r.err, ErrClosed) || errors.Is(r.err, replicate.ErrUnknown) {
		t.Fatalf("append staged behind it: %v, want ErrClosed", r.err)
	}
}

func TestStagedBehindAFailedSync(t *testing.T) {
	l, o, g, flying, stop := startGated(t)
	failSync(t, l, g, flying)
	if err := stop(); !errors.Is(err, ErrPoisoned) {
		t.Fatalf("run: %v", err)
	}
	o.FS = quickFS()
	again, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if h := again.Head(l.Source()); h.Seq < durableSoFar || h.Seq > durableSoFar+2 {
		t.Fatalf("chain ends at seq %d after reopening, acknowledged %d", h.Seq, durableSoFar)
	}
}

// TestReopenWithAStagedGroup has the log recover by itself: it goes on behind
// what survived, without the staged group.
func TestReopenWithAStagedGroup(t *testing.T) {
	l, _, g, flying, _ := startGated(t)
	failSync(t, l, g, flying)
	eventually(t, "log recovered", func() bool { return l.Err() == nil })
	// The disk here keeps what was written and not synced.
	if e := mustAppend(t, l, note(5))[0]; e.Seq != durableSoFar+3 {
		t.Fatalf("goes on at seq %d, want %d", e.Seq, durableSoFar+3)
	}
	for got, err := range l.Read(l.Source(), 1) {
		if err != nil || bytes.Contains(got.Body, []byte("v7777")) {
			t.Fatalf("event %d: %s, %v", got.Seq, got.Body, err)
		}
	}
}

func reopenAfter(t *testing.T) time.Duration {
	if t.Name() == "TestReopenWithAStagedGroup" {
		return time.Millisecond
	}
	return -1
}

// TestNoRoomForAStagedGroup finds the disk full when the next group's turn
// comes: it alone is refused, and the chain goes on behind the one before.
func TestNoRoomForAStagedGroup(t *testing.T) {
	l, _, g, flying, _ := startGated(t)
	large := event.Draft{Kind: event.KindPublishing, Body: event.Publishing{Why: strings.Repeat("w", 128<<10)}}
	b := appendLater(l, large)
	staged(t, l, 3)
	g.full.Store(true)
	g.shut.Store(false)
	g.leave <- nil
	first, second, refused := <-flying[0], <-flying[1], <-b
	if first.err != nil || second.err != nil || !errors.Is(refused.err, ErrDiskFull) {
		t.Fatalf("%v, %v, %v, want nil, nil and ErrDiskFull", first.err, second.err, refused.err)
	}
	g.full.Store(false)
	before := l.Head(l.Source())
	if e := mustAppend(t, l, note(5))[0]; e.Prev != before.Hash || e.Seq != durableSoFar+3 {
		t.Fatalf("event %d does not follow the last durable one, %d", e.Seq, before.Seq)
	}
}

// TestRenewBehindAStagedGroup starts a new incarnation while one group is
// synced and another staged: both are in the old one.
func TestRenewBehindAStagedGroup(t *testing.T) {
	l, _, g, flying, _ := startGated(t)
	old := l.Source()
	b := appendLater(l, note(5))
	staged(t, l, 3)
	renewed := make(chan error, 1)
	go func() { renewed <- inbound{l}.Renew(context.Background(), old.Inc+1, "test") }()
	eventually(t, "renewal asked for", func() bool {
		l.w.in.mu.Lock()
		defer l.w.in.mu.Unlock()
		return l.w.in.taken+len(l.w.in.urgent) == 4
	})
	g.shut.Store(false)
	g.leave <- nil
	for _, c := range append(flying[:], b) {
		if r := <-c; r.err != nil || r.events[0].Source != old {
			t.Fatalf("%+v, want an event of %s", r, old)
		}
	}
	if err := <-renewed; err != nil {
		t.Fatal(err)
	}
	if e := mustAppend(t, l, note(6))[0]; e.Source.Inc != old.Inc+1 || e.Seq != 2 {
		t.Fatalf("the new chain goes on with %s, event %d", e.Source, e.Seq)
	}
}
