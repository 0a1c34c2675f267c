package main

import (
	"context"
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/examples/skeinwasm"
	"github.com/skein-project/skein/internal/wasmtest"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/executor"
	"github.com/skein-project/skein/worker/runner"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "runner" {
		os.Exit(runner.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func samplePortfolio(t testing.TB) (Portfolio, []byte) {
	t.Helper()
	b, err := os.ReadFile("portfolio.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := parsePortfolio(b)
	if err != nil {
		t.Fatal(err)
	}
	return p, b
}

func TestNormalIsTheInverseOfPhi(t *testing.T) {
	for _, u := range []float64{1e-300, 1e-20, 1e-9, 0.001, 0.02, 0.07, 0.0750001, 0.3, 0.5} {
		z := normal(u)
		if back := phi(z); math.Abs(back-u) > 1e-12*u {
			t.Errorf("phi(normal(%g)) = %g", u, back)
		}
		if u >= 1e-9 {
			if other := normal(1 - u); math.Abs(other+z) > 1e-6 {
				t.Errorf("normal(%g) = %g, normal(1-%g) = %g", u, z, u, other)
			}
		}
	}
}

// Known prices: Hull, Options, Futures and Other Derivatives, example 15.6;
// and parity of calls and puts.
func TestBlackScholes(t *testing.T) {
	o := Option{Name: "hull", Kind: call, Spot: 42, Strike: 40, Rate: 0.1, Volatility: 0.2, Maturity: 0.5}
	if c := o.blackScholes(); math.Abs(c-4.76) > 0.005 {
		t.Errorf("call %v, want 4.76", c)
	}
	o.Kind = put
	if p := o.blackScholes(); math.Abs(p-0.81) > 0.005 {
		t.Errorf("put %v, want 0.81", p)
	}
	p, _ := samplePortfolio(t)
	for _, o := range p.Options {
		c, p := o, o
		c.Kind, p.Kind = call, put
		parity := o.Spot - o.Strike*math.Exp(-o.Rate*o.Maturity)
		if d := c.blackScholes() - p.blackScholes(); math.Abs(d-parity) > 1e-9 {
			t.Errorf("%s: call minus put is %v, want %v", o.Name, d, parity)
		}
	}
}

func TestBadPortfolios(t *testing.T) {
	good := `{"name":"a","kind":"call","spot":1,"strike":1,"rate":0,"volatility":0.1,"maturity":1}`
	for name, c := range map[string]struct{ in, want string }{
		"nothing":    {"", "a portfolio is needed"},
		"garbage":    {"hello", "config:"},
		"no options": {`{"options":[]}`, "0 options"},
		"unknown":    {`{"options":[],"x":1}`, "unknown field"},
		"kind":       {`{"options":[` + strings.Replace(good, "call", "swap", 1) + `]}`, "kind"},
		"volatility": {`{"options":[` + strings.Replace(good, "0.1", "0", 1) + `]}`, "volatility"},
		"spot":       {`{"options":[` + strings.Replace(good, `"spot":1`, `"spot":-1`, 1) + `]}`, "spot"},
		"twice":      {`{"options":[` + good + "," + good + `]}`, "twice"},
	} {
		if _, err := parsePortfolio([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// module returns the compiled job: that of `make build` if the environment
// names it, else a fresh one.
func module(t *testing.T) []byte {
	t.Helper()
	name := filepath.Join(os.Getenv("SKEIN_BIN"), "examples", "options.wasm")
	if os.Getenv("SKEIN_BIN") == "" {
		name = filepath.Join(t.TempDir(), "options.wasm")
		cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", name, ".")
		cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The job, run by the executor in chunks, agrees with the closed form within
// 4 standard errors for every option, and gives the same bits every time.
func TestPricesAgreeWithBlackScholes(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a guest")
	}
	p, config := samplePortfolio(t)
	store, err := artefact.New(artefact.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	e, err := executor.NewWASM(executor.WASMOptions{Artefacts: store, Slots: 2, CacheDir: wasmtest.Modules(t), LoadTimeout: 20 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	put := func(b []byte) cluster.Hash {
		h, err := store.Put(strings.NewReader(string(b)), job.MaxModuleBytes)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	spec := job.Spec{
		Key: "k", Artefact: put(module(t)), Config: put(config), Iterations: 1_000_000, Chunk: 250_000, Seed: 20_260_101,
	}.WithDefaults()
	if err := spec.Validate(); err != nil {
		t.Fatal(err)
	}
	execute := func(slot, chunk int) job.ChunkResult {
		r, err := e.Execute(ctx, slot, executor.Task{Attempt: job.Attempt{Job: "j", Chunk: chunk, Number: 1}, Spec: spec})
		if err != nil {
			t.Fatalf("chunk %d: %v", chunk, err)
		}
		return r
	}
	sums := map[string]skeinwasm.Metric{}
	for chunk := range spec.Chunks() {
		r := execute(chunk%2, chunk)
		if chunk == 1 && !reflect.DeepEqual(r, execute(0, chunk)) {
			t.Error("the same chunk gave other bits in another process")
		}
		for name, m := range r.Metrics {
			if m.Sketch.Count() != m.N {
				t.Errorf("%s: %d of %d samples in the sketch", name, m.Sketch.Count(), m.N)
			}
			sums[name] = merge(sums[name], skeinwasm.Metric{N: m.N, Mean: m.Mean, M2: m.M2, Min: m.Min, Max: m.Max})
		}
	}
	for _, o := range p.Options {
		m, want := sums[o.Name], o.blackScholes()
		z := (m.Mean - want) / m.StdErr()
		t.Logf("%-18s simulated %9.5f +- %.5f, closed form %9.5f, %+.2f standard errors", o.Name, m.Mean, m.StdErr(), want, z)
		if m.N != spec.Iterations || !(math.Abs(z) <= 4) {
			t.Errorf("%s: %d samples, off by %.2f standard errors", o.Name, m.N, z)
		}
	}
}

func merge(a, b skeinwasm.Metric) skeinwasm.Metric {
	if a.N == 0 {
		return b
	}
	na, nb := float64(a.N), float64(b.N)
	d := b.Mean - a.Mean
	return skeinwasm.Metric{
		N: a.N + b.N, Mean: a.Mean + d*nb/(na+nb), M2: a.M2 + b.M2 + d*d*na*nb/(na+nb),
		Min: min(a.Min, b.Min), Max: max(a.Max, b.Max),
	}
}

func BenchmarkPrice(b *testing.B) {
	p, _ := samplePortfolio(b)
	began := time.Now()
	for b.Loop() {
		price(p, skeinwasm.Chunk{Iterations: 10_000})
	}
	b.ReportMetric(float64(b.N)*1e4*float64(len(p.Options))/time.Since(began).Seconds(), "samples/s")
}
