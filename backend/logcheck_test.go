package backend

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/statetest"
)

// checking returns what reads and checks the log of a state directory, and where
// that log is.
func checking(t *testing.T, events int) (*logs, string) {
	t.Helper()
	dir := statetest.WithLog(t, events)
	id, _, err := join.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	logDir := filepath.Join(dir, "log")
	l, err := eventlog.Open(eventlog.Options{
		Dir: logDir, Cluster: id.Cluster.String(), Self: id.Node, Key: id.IDKey(), SegmentSize: 8192, Logger: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return &logs{self: id.Node, log: l, checks: newLogChecks(id.Node, l, &stateHash{}, calm{}.Pauses, zerolog.Nop()), logger: zerolog.Nop()}, logDir
}

func (c *logChecks) wait(t *testing.T, run uint64) api.LogCheck {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		got, p := c.join(run, func() error { return api.Errorf(api.CodeInternal, "it must not start") })
		if p != nil {
			t.Fatal(p)
		}
		if !got.Running {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("not done: %+v", got)
		}
		time.Sleep(time.Millisecond)
	}
}

// TestLogChecks starts a check, joins it, asks for it later and for one that
// never was; then the log rots, and the next check names the place.
func TestLogChecks(t *testing.T) {
	n, dir := checking(t, 120)
	c := n.checks
	free := func() error { return nil }
	first, p := c.join(0, free)
	if p != nil || !first.Running || first.Run != 1 || first.TotalEvents < 120 {
		t.Fatalf("%+v %v", first, p)
	}
	if again, p := c.join(0, func() error { return api.Errorf(api.CodeOverloaded, "a second one") }); p != nil || again.Run != 1 {
		t.Fatalf("not joined: %+v %v", again, p)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.run(ctx) }()
	got := c.wait(t, 1)
	if got.Bad() != "" || got.Result.Events != got.TotalEvents || got.DoneEvents != got.TotalEvents || got.Result.Signatures == 0 ||
		got.LiveStateHash == nil || *got.LiveStateHash != got.Result.StateHash || got.EndedAt == nil {
		t.Fatalf("%+v %+v", got, got.Result)
	}
	if _, p := c.join(7, free); !api.IsCode(p, api.CodeNotFound) {
		t.Fatalf("a run that never was: %v", p)
	}
	if _, p := c.join(0, func() error { return api.Errorf(api.CodeOverloaded, "no more") }); !api.IsCode(p, api.CodeOverloaded) {
		t.Fatalf("who may not start one: %v", p)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "n1.1", "*.seg"))
	if err != nil || len(segments) < 3 {
		t.Fatalf("%v %v", segments, err)
	}
	text, err := os.ReadFile(segments[1])
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 4
	if err := os.WriteFile(segments[1], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if second, p := c.join(0, free); p != nil || second.Run != 2 {
		t.Fatalf("%+v %v", second, p)
	}
	got = c.wait(t, 2)
	if got.Bad() == "" || got.Result.OK || got.Result.BadSource == nil || *got.Result.BadSource != (event.SourceID{Node: "n1", Inc: 1}) || got.Result.BadSeq == 0 {
		t.Fatalf("damage: %+v %+v", got, got.Result)
	}
	if last := c.ended(); last == nil || last.Bad() != got.Bad() {
		t.Errorf("the doctor is shown %+v, want %q", last, got.Bad())
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// TestLogCheckOfStranger limits how often another member starts one.
func TestLogCheckOfStranger(t *testing.T) {
	n, _ := checking(t, 1)
	lease := func() forward.Lease { return forward.Lease{} }
	here, err := forward.New(forward.Options{Self: "n1", Lease: lease, Now: func() time.Duration { return time.Hour }})
	if err != nil {
		t.Fatal(err)
	}
	forward.Handle(here, forward.CheckLog, n.checkLogFor)
	stranger, err := forward.New(forward.Options{Self: "n2", Lease: lease, Dial: func(ctx context.Context, _ cluster.NodeID) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			here.Serve(ctx, "n2", far)
			far.Close()
		}()
		return near, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(run uint64) (api.LogCheck, error) {
		return forward.AskHost(t.Context(), stranger, forward.CheckLog, "n1", "", forward.LogCheckRun{Run: run})
	}
	burst := forward.CheckLog.Quota.Burst
	for i := range burst + 1 {
		_, err := ask(0)
		if full := i == burst; (err != nil) != full || full && !api.IsCode(err, api.CodeOverloaded) {
			t.Fatalf("start %d: %v", i+1, err)
		} else if full {
			break
		}
		// Ended by hand.
		n.checks.last, n.checks.now = n.checks.now, nil
		n.checks.last.Running = false
		if again, err := ask(uint64(i + 1)); err != nil || again.Running {
			t.Fatalf("asking for the run costs nothing: %+v %v", again, err)
		}
	}
}

// hangingLog is a log whose check ends with its context.
type hangingLog struct {
	checkedLog
	begun chan struct{}
}

func (hangingLog) Heads() []event.Head { return nil }

func (l hangingLog) Verify(ctx context.Context, _ func(uint64)) (audit.Report, error) {
	close(l.begun)
	<-ctx.Done()
	return audit.Report{}, context.Cause(ctx)
}

// TestStopDuringLogCheck: a daemon that stops in the middle of a check reports no
// fault of the log.
func TestStopDuringLogCheck(t *testing.T) {
	var out bytes.Buffer
	log := hangingLog{begun: make(chan struct{})}
	c := newLogChecks("n1", log, &stateHash{}, calm{}.Pauses, zerolog.New(&out).Level(zerolog.WarnLevel))
	if _, err := c.join(0, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.run(ctx) }()
	<-log.begun
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if out.Len() > 0 {
		t.Errorf("logged: %s", &out)
	}
}
