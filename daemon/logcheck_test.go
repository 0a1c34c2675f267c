package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/eventlog"
)

// checking is a node that has a log and its checks only.
func checking(t *testing.T, events int) (*node, string) {
	t.Helper()
	dir := stateWithLog(t, events)
	id, _, err := join.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := eventlog.Open(eventlog.Options{
		Dir: logDir(dir), Cluster: id.Cluster.String(), Self: id.Node, Key: id.IDKey(), SegmentSize: 8192, Logger: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	n := &node{id: id, events: l, log: zerolog.Nop(), now: func() time.Duration { return time.Hour }}
	n.checks = newLogChecks(n)
	return n, logDir(dir)
}

func (c *logChecks) wait(t *testing.T, run uint64) api.LogCheck {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		got, p := c.join(run, func() *api.Problem { return api.Errorf(api.CodeInternal, "it must not start") })
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
	free := func() *api.Problem { return nil }
	first, p := c.join(0, free)
	if p != nil || !first.Running || first.Run != 1 || first.TotalEvents < 120 {
		t.Fatalf("%+v %v", first, p)
	}
	if again, p := c.join(0, func() *api.Problem { return api.Errorf(api.CodeOverloaded, "a second one") }); p != nil || again.Run != 1 {
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
	if _, p := c.join(7, free); p == nil || p.Code != api.CodeNotFound {
		t.Fatalf("a run that never was: %v", p)
	}
	if _, p := c.join(0, func() *api.Problem { return api.Errorf(api.CodeOverloaded, "no more") }); p == nil || p.Code != api.CodeOverloaded {
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
	if got.Bad() == "" || got.Result.OK || got.Result.BadSource == nil || *got.Result.BadSource != (cluster.SourceID{Node: "n1", Inc: 1}) || got.Result.BadSeq == 0 {
		t.Fatalf("damage: %+v %+v", got, got.Result)
	}
	if v := judgeLogCheck(clusterFacts{logCheck: c.ended()}); v.v != api.VerdictFail {
		t.Errorf("doctor: %+v", v)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// TestLogCheckOfStranger limits how often another member starts one.
func TestLogCheckOfStranger(t *testing.T) {
	n, _ := checking(t, 1)
	for i := range favours[favourCheck].burst + 1 {
		reply := n.checkLogFor("n2", checkLog{})
		full := i == favours[favourCheck].burst
		if (reply.Problem != nil) != full || full && reply.Problem.Code != api.CodeOverloaded {
			t.Fatalf("start %d: %+v", i+1, reply)
		}
		if !full { // ended by hand
			n.checks.last, n.checks.now = n.checks.now, nil
			n.checks.last.Running = false
			if again := n.checkLogFor("n2", checkLog{Run: uint64(i + 1)}); again.Check == nil || again.Check.Running {
				t.Fatalf("asking for the run costs nothing: %+v", again)
			}
		}
	}
}
