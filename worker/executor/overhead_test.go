//go:build linux

package executor

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/artefact"
)

// BenchmarkOverhead runs the same Go code, examples/pi, as a WASM module and as
// a native program, in turns, through the executors: chunks of one iteration
// for what an attempt costs, and large ones for what an iteration costs.
func BenchmarkOverhead(b *testing.B) {
	dir := b.TempDir()
	build := func(name string, env ...string) string {
		out := filepath.Join(dir, name)
		cmd := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-o", out, "../../examples/pi")
		cmd.Env = append(os.Environ(), env...)
		if msg, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("build %s: %v\n%s", name, err, msg)
		}
		return out
	}
	module, err := os.ReadFile(build("pi.wasm", "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS="))
	if err != nil {
		b.Fatal(err)
	}
	store, err := artefact.New(artefact.Options{Dir: filepath.Join(dir, "artefacts")})
	if err != nil {
		b.Fatal(err)
	}
	hash, err := store.Put(bytes.NewReader(module), job.MaxModuleBytes)
	if err != nil {
		b.Fatal(err)
	}
	wasm, err := NewWASM(WASMOptions{Artefacts: store, Slots: 1, CacheDir: filepath.Join(dir, "cache"), Logger: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _ = wasm.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-wasm.ended })
	native, err := NewExec(ExecOptions{
		Artefacts: store, ScratchDir: filepath.Join(dir, "scratch"), Programs: map[string][]string{"pi": {build("pi")}}, Logger: zerolog.Nop(),
	})
	if err != nil {
		b.Fatal(err)
	}
	run := func(e interface {
		Execute(ctx context.Context, slot int, t Task) (job.ChunkResult, error)
	}, spec job.Spec, n uint64,
	) (time.Duration, job.ChunkResult) {
		spec.Key, spec.Iterations, spec.Chunk = "k", n, n
		began := time.Now()
		r, err := e.Execute(b.Context(), 0, Task{Attempt: job.Attempt{Job: "j", Number: 1}, Spec: spec.WithDefaults()})
		if err != nil {
			b.Fatal(err)
		}
		return time.Since(began), r
	}
	wasmSpec, nativeSpec := job.Spec{Artefact: hash}, job.Spec{Executor: job.ExecutorExec, Program: "pi"}
	const large = 100_000_000
	run(wasm, wasmSpec, 1) // compiles
	var wasmEmpty, nativeEmpty, wasmLarge, nativeLarge []float64
	for b.Loop() {
		for range 5 {
			d, _ := run(wasm, wasmSpec, 1)
			wasmEmpty = append(wasmEmpty, d.Seconds())
			d, _ = run(native, nativeSpec, 1)
			nativeEmpty = append(nativeEmpty, d.Seconds())
			d, one := run(wasm, wasmSpec, large)
			wasmLarge = append(wasmLarge, d.Seconds())
			d, other := run(native, nativeSpec, large)
			nativeLarge = append(nativeLarge, d.Seconds())
			if one.Metrics["pi"].Mean != other.Metrics["pi"].Mean {
				b.Fatal("the two computed something else")
			}
		}
	}
	wasmRun, nativeRun := median(wasmLarge)-median(wasmEmpty), median(nativeLarge)-median(nativeEmpty)
	b.ReportMetric(median(wasmEmpty)*1e3, "ms-empty-wasm")
	b.ReportMetric(median(nativeEmpty)*1e3, "ms-empty-native")
	b.ReportMetric(large/wasmRun/1e6, "M-iterations/s-wasm")
	b.ReportMetric(large/nativeRun/1e6, "M-iterations/s-native")
	b.ReportMetric(wasmRun/nativeRun, "wasm/native-time")
}

func median(of []float64) float64 {
	s := slices.Sorted(slices.Values(of))
	return s[len(s)/2]
}
