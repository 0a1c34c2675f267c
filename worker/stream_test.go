package worker

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/wasmtest"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/executor"
)

// Whole way with real children: good, trapping and endless guests in random
// order, the endless ones cancelled or timed out. Every attempt that was not
// cancelled reports once, and the worker ends clean.
func TestManyChunksThroughTheStream(t *testing.T) {
	chunks := 60
	if os.Getenv("SKEIN_PROVE") != "" {
		chunks = 3000
	}
	store, err := artefact.New(artefact.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	guests, err := executor.NewWASM(executor.WASMOptions{Artefacts: store, Slots: 2})
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Options{
		Slots: 2, Queue: chunks, Executors: map[string]Executor{"wasm": guests}, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- w.Run(ctx) }()
	b := &bench{Worker: w, t: t}
	holder := b.dial("h", 2)
	holder.welcome()

	kinds := []struct {
		module []byte
		want   string // in the error; empty: a result
	}{
		{wasmtest.Assemble(wasmtest.GoodResult, wasmtest.Write(1)), ""},
		{wasmtest.Assemble("", wasmtest.Unreachable()), "trap: unreachable"},
		{wasmtest.Assemble("bye", wasmtest.Write(2), wasmtest.Exit(9)), "exit code 9; standard error: bye"},
		{wasmtest.Assemble("", wasmtest.Forever()), "ran longer than the limit of 50ms"},
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	want := map[job.Attempt]string{}
	for c := range chunks {
		k := kinds[rng.IntN(len(kinds))]
		hash, err := store.Put(bytes.NewReader(k.module), job.MaxModuleBytes)
		if err != nil {
			t.Fatal(err)
		}
		spec := job.Spec{
			Key: "k", Artefact: hash, Iterations: uint64(chunks) * 10, Chunk: 10, TimeoutSeconds: 60, Seed: 42, MemoryBytes: 64 << 20,
		}.WithDefaults()
		if strings.HasPrefix(k.want, "ran longer") {
			spec.TimeoutSeconds = 0.05
		}
		r := ref(c, 1)
		want[r] = k.want
		holder.send(stream.Frame{Assign: &stream.Assign{
			Term: 2, Job: r.Job, Spec: spec, Chunks: []job.Attempt{{Chunk: c, Number: 1}},
		}})
		if rng.IntN(8) == 0 { // may have ended already, then its result is on the way
			holder.send(stream.Frame{Cancel: &stream.Cancel{Term: 2, Job: r.Job, Chunks: []job.Attempt{{Chunk: c, Number: 1}}}})
			want[r] = "cancelled"
		}
	}
	expect := 0
	for _, s := range want {
		if s != "cancelled" {
			expect++
		}
	}
	got := map[job.Attempt]bool{}
	for expect > 0 {
		f, ok := holder.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		if f.Result == nil {
			continue
		}
		r := f.Result
		if got[r.Attempt] {
			t.Fatalf("%v reported twice on one stream", r.Attempt)
		}
		got[r.Attempt] = true
		if want[r.Attempt] == "cancelled" {
			continue
		}
		expect--
		if !strings.Contains(r.Error, want[r.Attempt]) || (r.Result == nil) != (want[r.Attempt] != "") {
			t.Errorf("%v: %+v, want %q", r.Attempt, r, want[r.Attempt])
		}
	}
	holder.conn.Close()
	stop()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if v := w.View(); len(v.Running) != 0 || v.Queued != 0 {
		t.Errorf("view %+v", v)
	}
}
