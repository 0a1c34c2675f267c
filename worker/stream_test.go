package worker

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/scheduler/stream"
)

// Whole way with real children: good, trapping and endless guests in random
// order, the endless ones cancelled or timed out. Every attempt that was not
// cancelled reports once, and the worker ends clean.
func TestManyChunksThroughTheStream(t *testing.T) {
	chunks := 60
	if os.Getenv("SKEIN_PROVE") != "" {
		chunks = 3000
	}
	h := newWASMHost(t, nil)
	w, err := New(Options{
		Slots: 2, Queue: chunks, Executors: map[string]Executor{"wasm": running{h.WASM}}, Registerer: prometheus.NewRegistry(),
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
		{assemble(goodResult, write(1)), ""},
		{assemble("", unreachable), "trap: unreachable"},
		{assemble("bye", write(2), exit(9)), "exit code 9; standard error: bye"},
		{assemble("", forever()), "ran longer than the limit of 50ms"},
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	want := map[stream.Ref]string{}
	for c := range chunks {
		k := kinds[rng.IntN(len(kinds))]
		task := h.put(t, k.module)
		task.Spec.Iterations, task.Spec.TimeoutSeconds = uint64(chunks)*10, 60
		if strings.HasPrefix(k.want, "ran longer") {
			task.Spec.TimeoutSeconds = 0.05
		}
		r := ref(c, 1)
		want[r] = k.want
		holder.send(stream.Frame{Assign: &stream.Assign{
			Term: 2, Job: r.Job, Spec: task.Spec, Chunks: []stream.ChunkRef{{Chunk: c, Attempt: 1}},
		}})
		if rng.IntN(8) == 0 { // may have ended already, then its result is on the way
			holder.send(stream.Frame{Cancel: &stream.Cancel{Term: 2, Job: r.Job, Chunks: []stream.ChunkRef{{Chunk: c, Attempt: 1}}}})
			want[r] = "cancelled"
		}
	}
	expect := 0
	for _, s := range want {
		if s != "cancelled" {
			expect++
		}
	}
	got := map[stream.Ref]bool{}
	for expect > 0 {
		f, ok := holder.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		if f.Result == nil {
			continue
		}
		r := f.Result
		if got[r.Ref] {
			t.Fatalf("%v reported twice on one stream", r.Ref)
		}
		got[r.Ref] = true
		if want[r.Ref] == "cancelled" {
			continue
		}
		expect--
		if !strings.Contains(r.Error, want[r.Ref]) || (r.Result == nil) != (want[r.Ref] != "") {
			t.Errorf("%v: %+v, want %q", r.Ref, r, want[r.Ref])
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

// running is an executor that the test runs already.
type running struct{ *WASM }

func (r running) Run(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func (r running) Execute(ctx context.Context, slot int, t Task) (cluster.ChunkResult, error) {
	return r.WASM.Execute(ctx, slot, t)
}
