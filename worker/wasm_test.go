package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/skein-project/skein/cluster"
)

func TestGuestGivesResult(t *testing.T) {
	h := newWASMHost(t, nil)
	task := h.put(t, assemble(goodResult, write(1)))
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
	nan := strings.Replace(goodResult, `"mean":2`, `"mean":NaN`, 1)
	for name, c := range map[string]struct {
		module []byte
		want   string
	}{
		"exit code":        {assemble("no luck\n", write(2), exit(3)), "exit code 3; standard error: no luck"},
		"exit 0 silent":    {assemble("", exit(0)), "wrote no result"},
		"garbage":          {assemble("hello", write(1)), "standard output is not a result"},
		"two results":      {assemble(goodResult, write(1), write(1)), "more follows"},
		"cut off":          {assemble(goodResult[:40], write(1)), "cut off"},
		"NaN":              {assemble(nan, write(1)), "NaN"},
		"huge number":      {assemble(strings.Replace(goodResult, `"mean":2`, `"mean":1e999`, 1), write(1)), "too large"},
		"mean outside":     {assemble(strings.Replace(goodResult, `"mean":2`, `"mean":5`, 1), write(1)), "min <= mean <= max"},
		"m2 impossible":    {assemble(strings.Replace(goodResult, `"m2":10`, `"m2":11`, 1), write(1)), "m2 is 11"},
		"iterations":       {assemble(strings.Replace(goodResult, `"iterations":10`, `"iterations":9`, 1), write(1)), "9 iterations, the chunk has 10"},
		"missing field":    {assemble(strings.Replace(goodResult, `"m2":10,`, ``, 1), write(1)), "want n, mean, m2, min and max"},
		"trap":             {assemble("", unreachable), "trap: unreachable"},
		"gigabytes out":    {assemble(strings.Repeat("x", 50_000), forever(write(1))), "wrote more than 1048576 bytes"},
		"all memory":       {assemble("no memory", untilRefused(growMemory), write(2), exit(7)), "exit code 7; standard error: no memory"},
		"not wasm":         {[]byte("#!/bin/sh\n"), "module cannot be run: not a WebAssembly file"},
		"invalid code":     {assemble("", []byte{0xff}), "module cannot be run: invalid function[0]"},
		"terminal escapes": {assemble("\x1b[31mred\x07\n\u202eevil", write(2), exit(1)), "standard error: [31mred evil"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newWASMHost(t, nil)
			_, err := h.Execute(t.Context(), 0, h.put(t, c.module))
			if err == nil || !strings.Contains(reason(err), c.want) {
				t.Fatalf("reason %v, want %q", err, c.want)
			}
			if r := reason(err); len(r) > cluster.MaxReason || !utf8.ValidString(r) || strings.ContainsAny(r, "\x1b\n") {
				t.Errorf("reason is not one clean line: %q", r)
			}
		})
	}
}

// A child whose guest went wrong serves the next chunk.
func TestSlotSurvivesBadGuests(t *testing.T) {
	h := newWASMHost(t, nil)
	good := h.put(t, assemble(goodResult, write(1)))
	for _, bad := range [][]byte{
		assemble("", unreachable),
		assemble(strings.Repeat("x", 1<<20), write(1), write(1)),
		assemble("", untilRefused(growMemory), exit(1)),
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
	task := h.put(t, assemble("", forever()))
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
	if _, err := h.Execute(t.Context(), 0, h.put(t, assemble(goodResult, write(1)))); err != nil {
		t.Fatalf("next chunk: %v", err)
	}
}

func TestCancelKillsGuest(t *testing.T) {
	h := newWASMHost(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := h.Execute(ctx, 1, h.put(t, assemble("", forever())))
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
	task := h.put(t, assemble(goodResult, write(1)))
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
	_, err := h.Execute(t.Context(), 0, h.put(t, assemble(goodResult, write(1))))
	if err == nil || !strings.Contains(err.Error(), "start runner") {
		t.Fatalf("error %v", err)
	}
	h = newWASMHost(t, func(o *WASMOptions) { o.RunnerArgv = []string{"/bin/echo", "hi"} })
	_, err = h.Execute(t.Context(), 0, h.put(t, assemble(goodResult, write(1))))
	if err == nil {
		t.Fatal("a program that is no runner succeeded")
	}
}

func TestMissingArtefact(t *testing.T) {
	h := newWASMHost(t, nil)
	task := h.put(t, assemble(goodResult, write(1)))
	task.Spec.Artefact = cluster.Hash{1}
	if _, err := h.Execute(t.Context(), 0, task); !errors.Is(err, ErrNotFound) || !strings.HasPrefix(err.Error(), "module: ") {
		t.Errorf("module: %v", err)
	}
	task = h.put(t, assemble(goodResult, write(1)))
	task.Spec.Config = cluster.Hash{2}
	if _, err := h.Execute(t.Context(), 0, task); !errors.Is(err, ErrNotFound) || !strings.HasPrefix(err.Error(), "config: ") {
		t.Errorf("config: %v", err)
	}
}

func TestMemoryBeyondTheHost(t *testing.T) {
	h := newWASMHost(t, func(o *WASMOptions) { o.MemoryBytes = 32 << 20 })
	_, err := h.Execute(t.Context(), 0, h.put(t, assemble(goodResult, write(1))))
	if err == nil || !strings.Contains(err.Error(), "this host allows 33554432") {
		t.Fatalf("error %v", err)
	}
	task := h.put(t, assemble(strings.Repeat(" ", 2<<20)+goodResult, write(1)))
	task.Spec.MemoryBytes = 1 << 20
	if _, err := h.Execute(t.Context(), 0, task); err == nil || !strings.Contains(err.Error(), "module cannot be run") {
		t.Fatalf("module larger than its limit: %v", err)
	}
}

// Tables are not linear memory: the second wall holds them.
func TestGrowingTablesKillsOnlyTheChild(t *testing.T) {
	h := newWASMHost(t, nil)
	task := h.put(t, assemble("", untilRefused(growTable), exit(5)))
	_, err := h.Execute(t.Context(), 0, task)
	if err == nil {
		t.Fatal("a guest took all memory")
	}
	t.Log(reason(err))
	if _, err := h.Execute(t.Context(), 0, h.put(t, assemble(goodResult, write(1)))); err != nil {
		t.Fatalf("next chunk: %v", err)
	}
}

func TestDamagedArtefactIsFetchedAgain(t *testing.T) {
	h := newWASMHost(t, nil)
	module := assemble(goodResult, write(1))
	task := h.put(t, module)
	other, err := NewArtefacts(ArtefactsOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Put(bytesReader(module), cluster.MaxModuleBytes); err != nil {
		t.Fatal(err)
	}
	h.store.opts.Dial = pipeNet{"b": other.Serve}.dialer("a")
	h.store.opts.Peers = func() []cluster.NodeID { return []cluster.NodeID{"b"} }
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

func TestDamagedCacheIsRebuilt(t *testing.T) {
	dir := t.TempDir()
	module := assemble(goodResult, write(1))
	for round := range 2 {
		h := newWASMHost(t, func(o *WASMOptions) { o.CacheDir = dir })
		if _, err := h.Execute(t.Context(), 0, h.put(t, module)); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		files := 0
		err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			files++
			return os.WriteFile(name, []byte("rot"), 0o600)
		})
		if err != nil || files == 0 {
			t.Fatalf("round %d: %d files in the cache, %v", round, files, err)
		}
	}
}

func TestCompile(t *testing.T) {
	h := newWASMHost(t, nil)
	task := h.put(t, assemble(goodResult, write(1)))
	if err := h.Compile(t.Context(), task.Spec.Artefact, 64<<20); err != nil {
		t.Fatal(err)
	}
	if len(h.live) != 0 {
		t.Error("the compiling child stays")
	}
	for name, bad := range map[string][]byte{
		"code":   assemble("", []byte{0xff}),
		"import": strangeImport("no_such_call"),
	} {
		task = h.put(t, bad)
		if err := h.Compile(t.Context(), task.Spec.Artefact, 64<<20); !errors.Is(err, ErrModule) {
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
