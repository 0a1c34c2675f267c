package daemon

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/internal/logaudit"
)

// stateWithLog makes a state directory whose log has n events, without a
// daemon.
func stateWithLog(t *testing.T, n int) string {
	t.Helper()
	cfg := hostConfig(t)
	if err := Init(cfg, InitOptions{ClusterName: "blue"}); err != nil {
		t.Fatal(err)
	}
	appendTo(t, cfg.StateDir, n)
	return cfg.StateDir
}

// appendTo writes n more events to the log of a state directory.
func appendTo(t *testing.T, stateDir string, n int) {
	t.Helper()
	id, _, err := join.Load(stateDir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := eventlog.Open(eventlog.Options{
		Dir: logDir(stateDir), Cluster: id.Cluster.String(), Self: id.Node, Key: id.IDKey(), SegmentSize: 8192,
		MayAct: func(cluster.Term) bool { return true }, Logger: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	for i := range n {
		d := cluster.Draft{Kind: cluster.KindHostStarted, Body: cluster.HostStarted{Version: "v<1>", Boot: uint64(i)}}
		if i%10 == 0 {
			d = cluster.Draft{Term: cluster.Term(i + 1), Kind: cluster.KindTermStart, Body: cluster.TermStart{Term: cluster.Term(i + 1), Cut: l.Cut()}}
		}
		if _, err := l.Append(ctx, []cluster.Draft{d, d}[:1+i%2]); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// TestExportConvincesThirdParty exports a log in two parts, the second from
// where the first ended, and lets a program verify it that shares no code with
// this one. No line of it can be left out.
func TestExportConvincesThirdParty(t *testing.T) {
	dir := stateWithLog(t, 60)
	export := func(o ExportOptions) (string, string) {
		t.Helper()
		var b bytes.Buffer
		end, err := ExportLog(t.Context(), dir, o, &b)
		if err != nil {
			t.Fatal(err)
		}
		return b.String(), end.Cursor
	}
	first, at := export(ExportOptions{})
	appendTo(t, dir, 40)
	from, err := cluster.ParseCursor(at)
	if err != nil {
		t.Fatal(err)
	}
	second, _ := export(ExportOptions{From: from})
	whole, err := logaudit.ReadExport(strings.NewReader(first), strings.NewReader(second))
	if err != nil || whole.Events < 100 || whole.Sources != 1 {
		t.Fatalf("%+v %v", whole, err)
	}
	if part, err := logaudit.ReadExport(strings.NewReader(second)); err != nil || part.From != at {
		t.Errorf("the second part says that it begins at %q: %v", part.From, err)
	}
	if _, err := logaudit.ReadExport(strings.NewReader(second), strings.NewReader(first)); err == nil {
		t.Error("parts in the wrong order")
	}
	lines := strings.SplitAfter(strings.TrimSuffix(first, "\n"), "\n")
	for i := range lines {
		without := strings.Join(append(append([]string{}, lines[:i]...), lines[i+1:]...), "")
		if _, err := logaudit.ReadExport(strings.NewReader(without)); err == nil {
			t.Errorf("line %d can be left out: %.80s", i+1, lines[i])
		}
	}
	if some, _ := export(ExportOptions{Kinds: []string{"term_*"}}); strings.Count(some, "\n") != 12 || strings.Contains(some, "host_started\"") {
		t.Errorf("ten term starts, head and end: %s", some)
	}
	if none, end := export(ExportOptions{Since: time.Now().Add(time.Hour)}); strings.Count(none, "\n") != 2 || end == "" {
		t.Errorf("nothing since an hour from now: %s", none)
	}
}

// brokenPipe fails after some bytes.
type brokenPipe struct{ left int }

func (w *brokenPipe) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, io.ErrClosedPipe
	}
	return len(p), nil
}

// TestExportBreaksOff does not claim to be further than it is.
func TestExportBreaksOff(t *testing.T) {
	dir := stateWithLog(t, 10)
	if end, err := ExportLog(t.Context(), dir, ExportOptions{}, &brokenPipe{left: 100}); !errors.Is(err, io.ErrClosedPipe) || end.Cursor != "" {
		t.Errorf("broken pipe: %+v %v", end, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if end, err := ExportLog(ctx, dir, ExportOptions{}, io.Discard); !errors.Is(err, context.Canceled) || end.Events != 0 {
		t.Errorf("cancelled: %+v %v", end, err)
	}
}

func TestReplayLog(t *testing.T) {
	dir := stateWithLog(t, 30)
	r, err := ReplayLog(t.Context(), dir, ReplayOptions{})
	if err != nil || r.Lease.Term != 21 || r.Lease.Holder != "n1" || r.LastAt == nil || len(r.Members) != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	v, err := VerifyLog(t.Context(), dir)
	if err != nil || !v.OK || v.StateHash != r.StateHash || v.Events != r.Events {
		t.Fatalf("verify says %+v %v", v, err)
	}
	at, err := cluster.ParseCursor("n1/1:5")
	if err != nil {
		t.Fatal(err)
	}
	if r, err = ReplayLog(t.Context(), dir, ReplayOptions{Position: at}); err != nil || r.Events != 5 || r.Position != "n1/1:5" || r.Lease.Term != 1 {
		t.Fatalf("at 5: %+v %v", r, err)
	}
	if again, err := ReplayLog(t.Context(), dir, ReplayOptions{Clock: r.LastHLC}); err != nil || again.StateHash != r.StateHash {
		t.Fatalf("at the clock of event 5: %+v %v", again, err)
	}
	if r, err = ReplayLog(t.Context(), dir, ReplayOptions{Time: time.Now().Add(-time.Hour)}); err != nil || r.Events != 0 || r.LastAt != nil {
		t.Fatalf("an hour ago: %+v %v", r, err)
	}
	heads, err := LogHeads(dir)
	if err != nil || len(heads) != 1 || heads[0].Seq != v.Events {
		t.Fatalf("%+v %v", heads, err)
	}
}
