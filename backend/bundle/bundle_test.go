package bundle

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/api"
)

func options() Options {
	reg := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "skein_test_total", Help: "A test."})
	reg.MustRegister(c)
	c.Inc()
	return Options{
		Views:    map[string]View{"status": func(context.Context) (any, error) { return map[string]int{"a": 1}, nil }},
		Metrics:  reg,
		Warnings: func() []byte { return []byte("{}\n") },
		Wait:     func(context.Context, time.Duration) error { return nil },
	}
}

// unpacked are the files by name, and what is said of those that are not whole.
func unpacked(t *testing.T, files []api.DebugFile) (texts, faults map[string]string) {
	t.Helper()
	texts, faults = map[string]string{}, map[string]string{}
	for _, f := range files {
		if f.Error != "" {
			faults[f.Name] = f.Error
		}
		if f.Gzip == nil {
			continue
		}
		r, err := gzip.NewReader(bytes.NewReader(f.Gzip))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil || len(text) != f.Size {
			t.Errorf("%s has %d bytes, said %d: %v", f.Name, len(text), f.Size, err)
		}
		texts[f.Name] = string(text)
	}
	return texts, faults
}

func TestGather(t *testing.T) {
	o := options()
	o.Views["broken"] = func(context.Context) (any, error) { return nil, errors.New("no answer") }
	files, err := New(o).Gather(t.Context(), api.DebugAsk{Profile: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	texts, faults := unpacked(t, files)
	for name, want := range map[string]string{
		"status.json": "{\n \"a\": 1\n}", "metrics.txt": "skein_test_total 1\n", "warnings.jsonl": "{}\n", "goroutine.txt": "TestGather",
	} {
		if !strings.Contains(texts[name], want) {
			t.Errorf("%s: %.200q lacks %q", name, texts[name], want)
		}
	}
	if len(texts["heap.pprof"]) == 0 || len(texts["cpu.pprof"]) == 0 {
		t.Errorf("no profiles: %d and %d bytes", len(texts["heap.pprof"]), len(texts["cpu.pprof"]))
	}
	if faults["broken.json"] != "no answer" || len(faults) != 1 {
		t.Errorf("faults %q", faults)
	}
}

// TestBounds: what is too large or does not pack is cut, and it says so.
func TestBounds(t *testing.T) {
	o := options()
	noise := make([]byte, 4<<20)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(noise)
	o.Warnings = func() []byte { return noise }
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		o.Views[name] = func(context.Context) (any, error) { return strings.Repeat(name, 3<<20), nil }
	}
	files, err := New(o).Gather(t.Context(), api.DebugAsk{})
	if err != nil {
		t.Fatal(err)
	}
	_, faults := unpacked(t, files)
	size, packed := 0, 0
	for _, f := range files {
		size, packed = size+f.Size, packed+len(f.Gzip)
	}
	if size > api.MaxDebugHost || packed > api.MaxDebugPacked {
		t.Errorf("%d bytes, %d packed", size, packed)
	}
	if !strings.HasPrefix(faults["a.json"], "cut: ") || !strings.HasPrefix(faults["warnings.jsonl"], "cut: ") {
		t.Errorf("faults %q", faults)
	}
}

// TestOneAtATime: a second one is told to come again.
func TestOneAtATime(t *testing.T) {
	o := options()
	var g *Gatherer
	asked := false
	o.Wait = func(ctx context.Context, _ time.Duration) error {
		asked = true
		if _, err := g.Gather(ctx, api.DebugAsk{}); !api.IsCode(err, api.CodeOverloaded) {
			t.Errorf("a second one: %v", err)
		}
		return nil
	}
	g = New(o)
	if _, err := g.Gather(t.Context(), api.DebugAsk{Profile: time.Second}); err != nil || !asked {
		t.Error(err, asked)
	}
	if _, err := g.Gather(t.Context(), api.DebugAsk{}); err != nil {
		t.Error(err)
	}
}

// TestNewer: old warnings are left out, and those whose time cannot be read are not.
func TestNewer(t *testing.T) {
	line := func(ago time.Duration) string {
		return `{"time":"` + time.Now().Add(-ago).Format(time.RFC3339) + `","level":"warn"}` + "\n"
	}
	old, recent, cut := line(2*time.Hour), line(time.Minute), `{"level":"warn","mess`
	text := []byte(old + recent + cut)
	if got := string(newer(text, time.Hour)); got != recent+cut {
		t.Errorf("of an hour: %s", got)
	}
	if got := string(newer(text, 0)); got != string(text) {
		t.Errorf("all: %s", got)
	}
}
