package executor

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/artefact"
)

// BenchmarkModule measures a module named by SKEIN_BENCH_WASM: its load
// without and with the cache, an empty chunk, and iterations per second.
func BenchmarkModule(b *testing.B) {
	name := os.Getenv("SKEIN_BENCH_WASM")
	if name == "" {
		b.Skip("SKEIN_BENCH_WASM names no module")
	}
	module, err := os.ReadFile(name)
	if err != nil {
		b.Fatal(err)
	}
	store, err := artefact.New(artefact.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	hash, err := store.Put(bytes.NewReader(module), job.MaxModuleBytes)
	if err != nil {
		b.Fatal(err)
	}
	start := func(cache string) *WASM {
		e, err := NewWASM(WASMOptions{Artefacts: store, Slots: 1, CacheDir: cache})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		go func() { _ = e.Run(ctx) }()
		b.Cleanup(func() { cancel(); <-e.ended })
		return e
	}
	cache := b.TempDir()
	execute := func(e *WASM, iterations uint64) time.Duration {
		spec := job.Spec{Key: "k", Artefact: hash, Iterations: iterations, Chunk: iterations}.WithDefaults()
		began := time.Now()
		if _, err := e.Execute(b.Context(), 0, Task{Attempt: job.Attempt{Job: "j", Number: 1}, Spec: spec}); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	cold := execute(start(cache), 1)
	warm := start(cache)
	first := execute(warm, 1)
	iterations := uint64(20_000_000)
	if s := os.Getenv("SKEIN_BENCH_ITERATIONS"); s != "" {
		if iterations, err = strconv.ParseUint(s, 10, 64); err != nil {
			b.Fatal(err)
		}
	}
	var empty, full time.Duration
	n := 0
	for b.Loop() {
		empty += execute(warm, 1)
		full += execute(warm, iterations)
		n++
	}
	b.ReportMetric(cold.Seconds()*1e3, "ms-first-compiled")
	b.ReportMetric(first.Seconds()*1e3, "ms-first-cached")
	b.ReportMetric(empty.Seconds()*1e3/float64(n), "ms-empty-chunk")
	b.ReportMetric(float64(iterations)*float64(n)/(full-empty).Seconds(), "iterations/s")
}
