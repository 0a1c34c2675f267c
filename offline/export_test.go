package offline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/internal/logaudit"
	"github.com/skein-project/skein/internal/statetest"
)

// TestExportConvincesThirdParty exports a log in two parts, the second from
// where the first ended, and lets a program verify it that shares no code with
// this one. No line of it can be left out.
func TestExportConvincesThirdParty(t *testing.T) {
	dir := statetest.WithLog(t, 60)
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
	statetest.Append(t, dir, 40)
	from, err := event.ParseCursor(at)
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
	// The founder is certified by the root key; without the certificate that is unknown.
	file := filepath.Join(t.TempDir(), "export.jsonl")
	for text, uncertified := range map[string]int{first: 0, second: 0, regexp.MustCompile(`"certs":\[[^]]+\]`).ReplaceAllString(first, `"certs":[]`): 1} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := CheckExport(file); err != nil || !c.OK || len(c.Uncertified) != uncertified || c.ClusterName != "blue" || len(c.Sources) != 1 {
			t.Errorf("%+v %v, want %d uncertified", c, err, uncertified)
		}
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
	dir := statetest.WithLog(t, 10)
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
	dir := statetest.WithLog(t, 30)
	r, err := ReplayLog(t.Context(), dir, ReplayOptions{})
	if err != nil || r.Lease.Term != 21 || r.Lease.Holder != "n1" || r.LastAt == nil || len(r.Members) != 1 {
		t.Fatalf("%+v %v", r, err)
	}
	v, err := VerifyLog(t.Context(), dir)
	if err != nil || !v.OK || v.StateHash != r.StateHash || v.Events != r.Events {
		t.Fatalf("verify says %+v %v", v, err)
	}
	at, err := event.ParseCursor("n1/1:5")
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
