package executor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/wasmtest"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/runner"
)

func TestGuestGivesResult(t *testing.T) {
	h := newWASMHost(t, nil)
	task := h.put(t, wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1)))
	for range 3 { // the child is used again
		r, err := h.Execute(t.Context(), 0, task)
		if err != nil || r.Iterations != 10 || r.Metrics["x"].Mean != 2 {
			t.Fatalf("result %+v, %v", r, err)
		}
	}
	if n := len(h.live); n != 1 {
		t.Errorf("%d children for one slot", n)
	}
}

// Everything that a guest can do wrong has a reason of its own.
func TestBadGuests(t *testing.T) {
	nan := strings.Replace(wasmtest.GoodResult, `"mean":2`, `"mean":NaN`, 1)
	for name, c := range map[string]struct {
		module []byte
		want   string
	}{
		"exit code":        {wasmtest.Assemble("no luck\n", wasmtest.Write(2), wasmtest.Exit(3)), "exit code 3; standard error: no luck"},
		"exit 0 silent":    {wasmtest.Assemble("", wasmtest.Exit(0)), "wrote no result"},
		"garbage":          {wasmtest.Assemble("hello", wasmtest.Write(1)), "standard output is not a result"},
		"two results":      {wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1), wasmtest.Write(1)), "more follows"},
		"cut off":          {wasmtest.Assemble(wasmtest.GoodResult[:40], wasmtest.Write(1)), "cut off"},
		"NaN":              {wasmtest.Assemble(nan, wasmtest.Write(1)), "NaN"},
		"huge number":      {wasmtest.Assemble(strings.Replace(wasmtest.GoodResult, `"mean":2`, `"mean":1e999`, 1), wasmtest.Write(1)), "too large"},
		"mean outside":     {wasmtest.Assemble(strings.Replace(wasmtest.GoodResult, `"mean":2`, `"mean":5`, 1), wasmtest.Write(1)), "min <= mean <= max"},
		"m2 impossible":    {wasmtest.Assemble(strings.Replace(wasmtest.GoodResult, `"m2":10`, `"m2":11`, 1), wasmtest.Write(1)), "m2 is 11"},
		"iterations":       {wasmtest.Assemble(strings.Replace(wasmtest.GoodResult, `"iterations":10`, `"iterations":9`, 1), wasmtest.Write(1)), "9 iterations, the chunk has 10"},
		"missing field":    {wasmtest.Assemble(strings.Replace(wasmtest.GoodResult, `"m2":10,`, ``, 1), wasmtest.Write(1)), "want n, mean, m2, min and max"},
		"trap":             {wasmtest.Assemble("", wasmtest.Unreachable()), "trap: unreachable"},
		"gigabytes out":    {wasmtest.Assemble(strings.Repeat("x", 50_000), wasmtest.Forever(wasmtest.Write(1))), "wrote more than 1048576 bytes"},
		"all memory":       {wasmtest.Assemble("no memory", wasmtest.UntilRefused(wasmtest.GrowMemory()), wasmtest.Write(2), wasmtest.Exit(7)), "exit code 7; standard error: no memory"},
		"not wasm":         {[]byte("#!/bin/sh\n"), "module cannot be run: not a WebAssembly file"},
		"invalid code":     {wasmtest.Assemble("", []byte{0xff}), "module cannot be run: invalid function[0]"},
		"terminal escapes": {wasmtest.Assemble("\x1b[31mred\x07\n\u202eevil", wasmtest.Write(2), wasmtest.Exit(1)), "standard error: [31mred evil"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newWASMHost(t, nil)
			_, err := h.Execute(t.Context(), 0, h.put(t, c.module))
			if err == nil || !strings.Contains(job.ReasonOf(err), c.want) {
				t.Fatalf("reason %v, want %q", err, c.want)
			}
			if r := job.ReasonOf(err); len(r) > cluster.MaxReason || !utf8.ValidString(r) || strings.ContainsAny(r, "\x1b\n") {
				t.Errorf("reason is not one clean line: %q", r)
			}
		})
	}
}

// A child whose guest went wrong serves the next chunk.
func TestSlotSurvivesBadGuests(t *testing.T) {
	h := newWASMHost(t, nil)
	good := h.put(t, wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1)))
	for _, bad := range [][]byte{
		wasmtest.Assemble("", wasmtest.Unreachable()),
		wasmtest.Assemble(strings.Repeat("x", 1<<20), wasmtest.Write(1), wasmtest.Write(1)),
		wasmtest.Assemble("", wasmtest.UntilRefused(wasmtest.GrowMemory()), wasmtest.Exit(1)),
	} {
		if _, err := h.Execute(t.Context(), 0, h.put(t, bad)); err == nil {
			t.Fatal("bad guest succeeded")
		}
		if _, err := h.Execute(t.Context(), 0, good); err != nil {
			t.Fatalf("after a bad guest: %v", err)
		}
	}
}

func TestGuestThatNeverEndsIsKilled(t *testing.T) {
	h := newWASMHost(t, nil)
	task := h.put(t, wasmtest.Assemble("", wasmtest.Forever()))
	task.Spec.TimeoutSeconds = 0.2
	began := time.Now()
	_, err := h.Execute(t.Context(), 0, task)
	if err == nil || !strings.Contains(err.Error(), "ran longer than the limit of 200ms") {
		t.Fatalf("error %v", err)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("took %s", took)
	}
	if len(h.live) != 0 {
		t.Error("the child lives on")
	}
	if _, err := h.Execute(t.Context(), 0, h.put(t, wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1)))); err != nil {
		t.Fatalf("next chunk: %v", err)
	}
}

func TestCancelKillsGuest(t *testing.T) {
	h := newWASMHost(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := h.Execute(ctx, 1, h.put(t, wasmtest.Assemble("", wasmtest.Forever())))
		failed <- err
	}()
	poll(t, "the child", func() bool { h.mu.Lock(); defer h.mu.Unlock(); return len(h.live) == 1 })
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want canceled", err)
	}
	if len(h.live) != 0 {
		t.Error("the child lives on")
	}
}

func TestChildDiesBetweenChunks(t *testing.T) {
	h := newWASMHost(t, nil)
	task := h.put(t, wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1)))
	if _, err := h.Execute(t.Context(), 0, task); err != nil {
		t.Fatal(err)
	}
	for c := range h.live {
		c.kill()
	}
	if _, err := h.Execute(t.Context(), 0, task); err != nil {
		t.Fatalf("an innocent chunk failed: %v", err)
	}
}

func TestRunnerCannotBeStarted(t *testing.T) {
	h := newWASMHost(t, func(o *WASMOptions) { o.RunnerArgv = []string{"/nonexistent/skein"} })
	_, err := h.Execute(t.Context(), 0, h.put(t, wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1))))
	if err == nil || !strings.Contains(err.Error(), "start runner") {
		t.Fatalf("error %v", err)
	}
	h = newWASMHost(t, func(o *WASMOptions) { o.RunnerArgv = []string{"/bin/echo", "hi"} })
	_, err = h.Execute(t.Context(), 0, h.put(t, wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1))))
	if err == nil {
		t.Fatal("a program that is no runner succeeded")
	}
}

func TestMissingArtefact(t *testing.T) {
	h := newWASMHost(t, nil)
	task := h.put(t, wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1)))
	task.Spec.Artefact = cluster.Hash{1}
	if _, err := h.Execute(t.Context(), 0, task); !errors.Is(err, artefact.ErrNotFound) || !strings.HasPrefix(err.Error(), "module: ") {
		t.Errorf("module: %v", err)
	}
	task = h.put(t, wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1)))
	task.Spec.Config = cluster.Hash{2}
	if _, err := h.Execute(t.Context(), 0, task); !errors.Is(err, artefact.ErrNotFound) || !strings.HasPrefix(err.Error(), "config: ") {
		t.Errorf("config: %v", err)
	}
}

func TestMemoryBeyondTheHost(t *testing.T) {
	h := newWASMHost(t, func(o *WASMOptions) { o.MemoryBytes = 32 << 20 })
	_, err := h.Execute(t.Context(), 0, h.put(t, wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1))))
	if err == nil || !strings.Contains(err.Error(), "this host allows 33554432") {
		t.Fatalf("error %v", err)
	}
	task := h.put(t, wasmtest.Assemble(strings.Repeat(" ", 2<<20)+wasmtest.GoodResult, wasmtest.Write(1)))
	task.Spec.MemoryBytes = 1 << 20
	if _, err := h.Execute(t.Context(), 0, task); err == nil || !strings.Contains(err.Error(), "module cannot be run") {
		t.Fatalf("module larger than its limit: %v", err)
	}
}

// Tables are not linear memory: the second wall holds them.
func TestGrowingTablesKillsOnlyTheChild(t *testing.T) {
	h := newWASMHost(t, nil)
	task := h.put(t, wasmtest.Assemble("", wasmtest.UntilRefused(wasmtest.GrowTable()), wasmtest.Exit(5)))
	_, err := h.Execute(t.Context(), 0, task)
	if err == nil {
		t.Fatal("a guest took all memory")
	}
	t.Log(job.ReasonOf(err))
	if _, err := h.Execute(t.Context(), 0, h.put(t, wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1)))); err != nil {
		t.Fatalf("next chunk: %v", err)
	}
}

func TestDamagedArtefactIsFetchedAgain(t *testing.T) {
	module := wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1))
	other, err := artefact.New(artefact.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Put(bytes.NewReader(module), job.MaxModuleBytes); err != nil {
		t.Fatal(err)
	}
	store, err := artefact.New(artefact.Options{
		Dir: t.TempDir(),
		Dial: func(context.Context, cluster.NodeID) (net.Conn, error) {
			near, far := net.Pipe()
			go other.Serve(context.Background(), "a", far)
			return near, nil
		},
		Peers: func() []cluster.NodeID { return []cluster.NodeID{"b"} },
	})
	if err != nil {
		t.Fatal(err)
	}
	h := newWASMHost(t, func(o *WASMOptions) { o.Artefacts = store })
	task := h.put(t, module)
	damage := func() {
		name := h.store.Path(task.Spec.Artefact)
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte("rot"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damage()
	if _, err := h.Execute(t.Context(), 0, task); err != nil {
		t.Fatal(err)
	}
	if _, err := h.store.Read(task.Spec.Artefact, 1<<20); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedCacheIsRebuilt: whatever changes in the cache, a chunk runs, and the
// cache is whole again.
func TestDamagedCacheIsRebuilt(t *testing.T) {
	dir := t.TempDir()
	module := wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1))
	content := func() map[string][]byte {
		t.Helper()
		out := map[string][]byte{}
		err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				out[name], err = os.ReadFile(name)
			}
			return err
		})
		if err != nil || len(out) < 2 {
			t.Fatalf("%d files in the cache, %v", len(out), err)
		}
		return out
	}
	run := func(what string) {
		t.Helper()
		h := newWASMHost(t, func(o *WASMOptions) { o.CacheDir = dir })
		if _, err := h.Execute(t.Context(), 0, h.put(t, module)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	run("first")
	whole := content()
	for name, good := range whole {
		flips := []int{0, len(good) / 4, len(good) / 2, len(good) - 1}
		for at := 8; at < len(good) && at < 64; at += 9 { // the header, which wazero believes
			flips = append(flips, at)
		}
		for _, at := range flips {
			bad := slices.Clone(good)
			bad[at] ^= 0x20
			what := fmt.Sprintf("%s, byte %d of %d", filepath.Base(name), at, len(good))
			if err := os.WriteFile(name, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			run(what)
			if now := content(); !maps.EqualFunc(now, whole, bytes.Equal) {
				t.Fatalf("%s: the cache was not rebuilt", what)
			}
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		run(filepath.Base(name) + " gone")
	}
	if now := content(); !maps.EqualFunc(now, whole, bytes.Equal) {
		t.Error("the cache was not rebuilt")
	}
}

func TestCompile(t *testing.T) {
	h := newWASMHost(t, nil)
	task := h.put(t, wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1)))
	if err := h.Compile(t.Context(), task.Spec.Artefact, 64<<20); err != nil {
		t.Fatal(err)
	}
	if len(h.live) != 0 {
		t.Error("the compiling child stays")
	}
	for name, bad := range map[string][]byte{
		"code":   wasmtest.Assemble("", []byte{0xff}),
		"import": wasmtest.StrangeImport("no_such_call"),
	} {
		task = h.put(t, bad)
		if err := h.Compile(t.Context(), task.Spec.Artefact, 64<<20); !errors.Is(err, runner.ErrModule) {
			t.Errorf("%s: %v, want ErrModule", name, err)
		}
	}
}

func TestPruneCache(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	for i, name := range []string{"old", "middle", "new"} {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
		at := now.Add(time.Duration(i-3) * time.Hour)
		if err := os.Chtimes(p, at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := pruneCache(dir, 200); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 || left[0].Name() != "middle" {
		t.Fatalf("left %v, %v", left, err)
	}
}

// Children compile modules into the cache while another host's executor prunes
// it: temporary files come and go under its eyes.
func TestPruneCacheInUse(t *testing.T) {
	dir := t.TempDir()
	done := make(chan struct{})
	var children sync.WaitGroup
	children.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			tmp := filepath.Join(dir, fmt.Sprint(i%8, ".tmp"))
			if err := os.WriteFile(tmp, []byte("code"), 0o600); err != nil {
				t.Error(err)
				return
			}
			_ = os.Rename(tmp, filepath.Join(dir, fmt.Sprint(i%8))) // may be pruned already
		}
	})
	for range 500 {
		if err := pruneCache(dir, 8); err != nil {
			t.Error(err)
			break
		}
	}
	close(done)
	children.Wait()
}
