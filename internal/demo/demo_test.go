package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/clusterslot"
	"github.com/skein-project/skein/internal/wasmtest"
	"github.com/skein-project/skein/load/slice"
)

// bin is where the program and the example modules are: SKEIN_BIN, or built
// once for this test run.
var bin string

// This program with wakesOnly in its environment only sleeps wakes at a time.
const (
	wakesOnly = "SKEIN_TEST_WAKES"
	wakes     = 50 * time.Millisecond
)

func TestMain(m *testing.M) {
	for os.Getenv(wakesOnly) != "" {
		time.Sleep(wakes)
	}
	if len(os.Args) == 2 && os.Args[1] == "load-slice" { // of a daemon in this process
		os.Exit(slice.Main(os.Stdin, os.Stdout))
	}
	if os.Getenv(laterFile) != "" && len(os.Args) > 1 && os.Args[1] == "run" {
		os.Exit(laterDaemon(os.Args[2:]))
	}
	// Daemons built with the race detector end at the first race.
	os.Setenv("GORACE", "halt_on_error=1 atexit_sleep_ms=100") //nolint:errcheck,usetesting // cannot fail; for children
	code := func() int {
		if bin = os.Getenv("SKEIN_BIN"); bin != "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "skein-bin-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a leftover in the temporary directory
		bin = dir
		for _, b := range []struct{ out, pkg, env string }{
			{"skein", "../../cmd/skein", ""},
			{"examples/pi.wasm", "../../examples/pi", "GOOS=wasip1 GOARCH=wasm"},
			{"examples/options.wasm", "../../examples/options", "GOOS=wasip1 GOARCH=wasm"},
			{"examples/sweep.wasm", "../../examples/sweep", "GOOS=wasip1 GOARCH=wasm"},
			{"examples/render.wasm", "../../examples/render", "GOOS=wasip1 GOARCH=wasm"},
		} {
			cmd := exec.Command("go", "build", "-o", filepath.Join(dir, b.out), b.pkg)
			cmd.Env = append(os.Environ(), strings.Fields(b.env)...)
			if out, err := cmd.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "build %s: %v\n%s", b.pkg, err, out)
				return 1
			}
		}
		return m.Run()
	}()
	os.Exit(code)
}

// testWriter sends the demo's lines to the test log.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}

// proving says that figures are measured with full counts.
func proving() bool { return os.Getenv("SKEIN_PROVE") != "" }

// lookEvery is the time between two looks at hosts: each of them is asked, and what that
// takes is taken from what they do.
func lookEvery() time.Duration {
	if proving() {
		return pollEvery
	}
	return 3 * pollEvery
}

// parallel lets a test run beside others, unless figures are to be measured.
func parallel(t *testing.T) {
	t.Helper()
	if !proving() {
		t.Parallel()
	}
}

// start brings up size real daemons and stops them at the end of the test.
func start(t *testing.T, size int) (*demo, context.Context) {
	t.Helper()
	return startWith(t, size, func(*demo) {})
}

// warm has hosts find modules compiled.
func warm(t *testing.T) func(dir string) { return func(dir string) { wasmtest.Warm(t, dir) } }

// calm makes hosts suspect each other only after seconds; a busy machine does not
// delay a host for that long.
func calm(d *demo) { d.o.Profile = cluster.ProfileLAN }

// environ gives every host these variables.
func environ(vars ...string) func(*demo) {
	return func(d *demo) {
		d.env = func(int, int) []string { return vars }
	}
}

// startWith is start with another shape of the cluster.
func startWith(t *testing.T, size int, shape func(*demo)) (*demo, context.Context) {
	t.Helper()
	slot := clusterslot.Take(t)
	most := 10 * time.Minute
	if proving() {
		most = time.Hour
	}
	for _, name := range []string{"SKEIN_SOAK", "SKEIN_LONG"} {
		if length, err := time.ParseDuration(os.Getenv(name)); err == nil {
			most = length + 20*time.Minute
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), most)
	d := &demo{
		o:   Options{Out: testWriter{t}, Exe: filepath.Join(bin, "skein"), Profile: cluster.ProfileFast, made: warm(t)},
		dir: t.TempDir(), start: time.Now(), size: size, port: slot.Port,
	}
	shape(d)
	t.Cleanup(func() {
		if t.Failed() {
			d.showLogs()
		}
		d.stopAll()
		cancel()
	})
	if err := d.up(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := d.holder(ctx); err != nil {
		t.Fatal(err)
	}
	return d, ctx
}

// cli runs one command against a host and returns its outputs and exit code.
func (d *demo) cli(ctx context.Context, h *host, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, d.o.Exe, append(args, "--socket", filepath.Join(h.dir, "sock"))...)
	cmd.Env = append(os.Environ(), "SKEIN_TIMEOUT=60s")
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return out.String(), err.Error(), -1
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// finish follows a job to its end.
func finish(ctx context.Context, t *testing.T, h *host, id job.ID) api.Job {
	t.Helper()
	job, err := h.api.FollowJob(ctx, string(id), api.FollowOptions{}, func(api.Job) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// option is one entry of the portfolio, read independently of the example.
type option struct {
	Name       string  `json:"name"`
	Kind       string  `json:"kind"`
	Spot       float64 `json:"spot"`
	Strike     float64 `json:"strike"`
	Rate       float64 `json:"rate"`
	Volatility float64 `json:"volatility"`
	Maturity   float64 `json:"maturity"`
}

// price is Black and Scholes (1973).
func (o option) price() float64 {
	phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
	sd := o.Volatility * math.Sqrt(o.Maturity)
	d1 := (math.Log(o.Spot/o.Strike) + (o.Rate+o.Volatility*o.Volatility/2)*o.Maturity) / sd
	discount := o.Strike * math.Exp(-o.Rate*o.Maturity)
	call := o.Spot*phi(d1) - discount*phi(d1-sd)
	if o.Kind == "put" {
		return call - o.Spot + discount
	}
	return call
}

func portfolio(t *testing.T) ([]byte, []option) {
	t.Helper()
	text, err := os.ReadFile("../../examples/options/portfolio.json")
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Options []option `json:"options"`
	}
	if err := json.Unmarshal(text, &p); err != nil || len(p.Options) == 0 {
		t.Fatalf("%d options, %v", len(p.Options), err)
	}
	return text, p.Options
}

// priceOn runs the options job on a cluster of its own and returns its
// aggregates as every host there reports them.
func priceOn(t *testing.T, size int, config []byte) map[string]api.Summary {
	t.Helper()
	d, ctx := start(t, size)
	last := d.hosts[size-1]
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "options.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	art, err := last.api.PutArtefact(ctx, bytes.NewReader(config))
	if err != nil {
		t.Fatal(err)
	}
	spec.Config, spec.Key, spec.Iterations, spec.Chunk, spec.Seed = art.Hash, "options", 400_000, 10_000, 7
	if proving() {
		spec.Iterations, spec.Chunk = 2_000_000, 50_000
	}
	sub := submit(ctx, t, last, spec)
	j := finish(ctx, t, last, sub.Job)
	if j.State != job.Completed {
		t.Fatalf("job ended %s: %s", j.State, j.Reason)
	}
	for _, h := range d.hosts {
		if other := finish(ctx, t, h, sub.Job); !reflect.DeepEqual(other.Aggregates, j.Aggregates) {
			t.Errorf("%s reports other aggregates than %s", h.name, last.name)
		}
	}
	return j.Aggregates
}

// TestOptionsAgreeWithBlackScholes prices a portfolio on three hosts and on
// one: every price lies within 4 standard errors of the closed form, and the
// aggregates are the same bits.
func TestOptionsAgreeWithBlackScholes(t *testing.T) {
	parallel(t)
	config, options := portfolio(t)
	three := priceOn(t, 3, config)
	one := priceOn(t, 1, config)
	if !reflect.DeepEqual(three, one) {
		t.Errorf("three hosts and one host computed different bits:\n%v\n%v", three, one)
	}
	worst := 0.0
	for _, o := range options {
		m, ok := three[o.Name]
		if !ok || m.SE == nil {
			t.Errorf("no result for %s", o.Name)
			continue
		}
		off := math.Abs(m.Mean-o.price()) / *m.SE
		worst = max(worst, off)
		if off > 4 {
			t.Errorf("%s: %g ± %g, closed form %g: off by %.1f standard errors", o.Name, m.Mean, *m.SE, o.price(), off)
		}
	}
	t.Logf("%d options, worst off by %.2f standard errors, same bits on 3 hosts and on 1", len(options), worst)
}

// TestSecondDaemonIsRefused starts a daemon on a state directory in use.
func TestSecondDaemonIsRefused(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 1)
	out, err := exec.CommandContext(ctx, d.o.Exe, "run", "--config", d.hosts[0].config).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in use by another process") {
		t.Errorf("second daemon: %v, output %q", err, out)
	}
	if _, err := d.hosts[0].api.Status(ctx); err != nil {
		t.Errorf("the first daemon suffered: %v", err)
	}
}

// TestCorruptSegmentIsNamed flips one bit in the middle of a stopped host's
// log: the daemon must refuse to start, naming the place.
func TestCorruptSegmentIsNamed(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 1)
	h := d.hosts[0]
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	spec.Key, spec.Iterations, spec.Chunk = "k", 100_000, 1000
	sub := submit(ctx, t, h, spec)
	finish(ctx, t, h, sub.Job)
	d.stopAll()
	var segment string
	if err := filepath.WalkDir(filepath.Join(h.stateDir(), "log"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, ".seg") {
			segment = path
		}
		return err
	}); err != nil || segment == "" {
		t.Fatalf("no segment found: %v", err)
	}
	text, err := os.ReadFile(segment)
	if err != nil {
		t.Fatal(err)
	}
	used := len(bytes.TrimRight(text, "\x00"))
	text[used/2] ^= 1
	if err := os.WriteFile(segment, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(ctx, d.o.Exe, "run", "--config", h.config).CombinedOutput()
	if err == nil {
		t.Fatal("the daemon started on a damaged log")
	}
	for _, want := range []string{filepath.Base(segment), "offset", "record"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("the error does not name the %s: %s", want, out)
		}
	}
	verify, _, code := d.cli(ctx, h, "log", "verify", "--state-dir", h.stateDir())
	if code == 0 {
		t.Errorf("log verify accepts the damage: %s", verify)
	}
}

// TestFailingJob runs modules that fail in every way that a module can: the
// job ends, with the reason, and the follower exits 8.
func TestFailingJob(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 1)
	h := d.hosts[0]
	module := filepath.Join(bin, "examples", "options.wasm")
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"options":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs, code := d.cli(ctx, h, "job", "run", "--wasm", module, "--config", bad,
		"--iterations", "1000", "--chunk", "500", "--attempts", "2", "--follow")
	if code != 8 || !strings.Contains(out+errs, "failed") {
		t.Errorf("job of a failing module: exit %d\nstdout %s\nstderr %s", code, out, errs)
	}
	jobs, err := h.api.Jobs(ctx)
	if err != nil || len(jobs.Jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(jobs.Jobs), err)
	}
	j, err := h.api.Job(ctx, string(jobs.Jobs[0].ID))
	if err != nil {
		t.Fatal(err)
	}
	if j.State != job.Failed || j.Reason == "" || len(j.Failures) == 0 || j.Failures[0].Reason == "" {
		t.Fatalf("job %s, reason %q, %d failures", j.State, j.Reason, len(j.Failures))
	}
	shown, _, _ := d.cli(ctx, h, "job", "status", string(j.ID))
	if !strings.Contains(shown, j.Failures[0].Reason[:min(20, len(j.Failures[0].Reason))]) {
		t.Errorf("job status hides the reason %q:\n%s", j.Failures[0].Reason, shown)
	}
}

// TestBadSubmissionsLogNothing tries jobs that cannot be accepted.
func TestBadSubmissionsLogNothing(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 1)
	h := d.hosts[0]
	pi := filepath.Join(bin, "examples", "pi.wasm")
	garbage := filepath.Join(t.TempDir(), "garbage.wasm")
	if err := os.WriteFile(garbage, []byte("not a module"), 0o600); err != nil {
		t.Fatal(err)
	}
	before, err := h.api.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"missing file":     {"--wasm", pi + ".none", "--iterations", "10"},
		"not a module":     {"--wasm", garbage, "--iterations", "10"},
		"no iterations":    {"--wasm", pi, "--iterations", "0"},
		"negative":         {"--wasm", pi, "--iterations=-5"},
		"overflow":         {"--wasm", pi, "--iterations", "99999999999999999999999"},
		"above the limit":  {"--wasm", pi, "--iterations", "9223372036854775807"},
		"chunk too large":  {"--wasm", pi, "--iterations", "10", "--chunk", "11"},
		"unknown executor": {"--wasm", pi, "--iterations", "10", "--executor", "shell"},
	} {
		_, errs, code := d.cli(ctx, h, append([]string{"job", "run"}, args...)...)
		if code == 0 || !strings.HasPrefix(errs, "skein: error: ") {
			t.Errorf("%s: exit %d, stderr %q", name, code, errs)
		}
	}
	spec := job.Spec{Key: "k", Executor: "shell", Artefact: cluster.Hash{1}, Iterations: 10}
	if _, err := h.api.Submit(ctx, api.SubmitRequest{Spec: spec}); err == nil {
		t.Error("unknown executor was accepted")
	}
	spec.Executor = job.ExecutorWASM
	if _, err := h.api.Submit(ctx, api.SubmitRequest{Spec: spec}); err == nil {
		t.Error("unknown artefact was accepted")
	}
	after, err := h.api.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if after.Log.Events != before.Log.Events {
		t.Errorf("%d events were logged", after.Log.Events-before.Log.Events)
	}
}

// TestDemo is the main job: three hosts, the holder lost at 40 %, nothing
// lost. By default each way to lose it once; SKEIN_PROVE=1 runs 20 of each
// and profile lan too.
func TestDemo(t *testing.T) {
	parallel(t)
	rounds, profiles := 1, []cluster.Profile{cluster.ProfileFast}
	if proving() {
		rounds, profiles = 20, []cluster.Profile{cluster.ProfileLAN, cluster.ProfileFast}
	}
	for _, handover := range []bool{false, true} {
		for _, profile := range profiles {
			signal := map[bool]string{false: "SIGKILL", true: "SIGTERM"}[handover]
			t.Run(fmt.Sprintf("%s-%s", signal, profile), func(t *testing.T) {
				parallel(t)
				clusterslot.Take(t)
				within := t.TempDir()
				part := leisurely(t)
				var gaps []time.Duration
				for range rounds {
					var out bytes.Buffer
					r, err := Run(t.Context(), Options{
						Out: &out, Exe: filepath.Join(bin, "skein"), Wasm: filepath.Join(bin, "examples", "pi.wasm"),
						Profile: profile, Iterations: 1_200_000_000 / part, Handover: handover, within: within, made: warm(t),
					})
					if err != nil {
						t.Fatalf("%v\n%s", err, out.String())
					}
					if r.Accepted != r.Submitted {
						t.Fatalf("accepted %d of %d iterations\n%s", r.Accepted, r.Submitted, out.String())
					}
					gaps = append(gaps, r.Gap)
				}
				slices.Sort(gaps)
				t.Logf("%d rounds, accepted == submitted in all; first chunk of the new holder after %s: p50 %.3f s, p99 %.3f s, max %.3f s",
					rounds, signal, gaps[len(gaps)/2].Seconds(), gaps[len(gaps)*99/100].Seconds(), gaps[len(gaps)-1].Seconds())
			})
		}
	}
}

// TestSubmitAnywhere submits through every host: what is acknowledged is known
// where it was asked for at once, the same key is the same job everywhere, and
// with a voter lost all of it still works.
func TestSubmitAnywhere(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 3)
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	spec.Iterations, spec.Chunk = 1000, 500
	submit := func(h *host, key string) job.ID {
		t.Helper()
		spec.Key = key
		sub, err := h.api.Submit(ctx, api.SubmitRequest{Spec: spec})
		if err != nil {
			t.Fatalf("submit through %s: %v", h.name, err)
		}
		if _, err := h.api.Job(ctx, string(sub.Job)); err != nil {
			t.Fatalf("right after the submit through %s: %v", h.name, err)
		}
		return sub.Job
	}
	for i := range 4 {
		for _, h := range d.hosts {
			submit(h, fmt.Sprintf("%s-%d", h.name, i))
		}
	}
	first := submit(d.hosts[0], "same")
	for _, h := range d.hosts[1:] {
		if id := submit(h, "same"); id != first {
			t.Errorf("key \"same\" is job %s through %s, %s through %s", first, d.hosts[0].name, id, h.name)
		}
	}
	spec.Seed++
	if _, err := d.hosts[1].api.Submit(ctx, api.SubmitRequest{Spec: spec}); !api.IsCode(err, api.CodeConflict) {
		t.Errorf("another job under the same key: %v, want a conflict", err)
	}
	holder, err := d.holder(ctx)
	if err != nil {
		t.Fatal(err)
	}
	lost := d.other(holder)
	if err := lost.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-lost.done
	for _, h := range d.hosts {
		if h.alive() {
			finish(ctx, t, h, submit(h, "after-"+h.name))
		}
	}
}

// TestGrowthKeepsTheLog lets two hosts join one that has done a job, and kills
// the founder the moment that all three vote: the two must know the job. Voters
// that know nothing must never be a majority.
func TestGrowthKeepsTheLog(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 1)
	founder := d.hosts[0]
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	spec.Key, spec.Iterations, spec.Chunk = "before", 300_000, 1000
	sub := submit(ctx, t, founder, spec)
	want := finish(ctx, t, founder, sub.Job)
	for i := 1; i < 3; i++ {
		join1(ctx, t, d, i)
	}
	if err := founder.await(ctx, "votes with two more", func(s api.Status) bool { return s.Lease.Voters == 3 }); err != nil {
		t.Fatal(err)
	}
	if err := founder.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-founder.done
	for _, h := range d.hosts[1:] {
		if err := h.await(ctx, "knows a new holder", func(s api.Status) bool {
			return s.Lease.Holder != "" && s.Lease.Holder != cluster.NodeID(founder.name)
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range d.hosts[1:] {
		j := finish(ctx, t, h, sub.Job)
		if j.State != job.Completed || !reflect.DeepEqual(j.Aggregates, want.Aggregates) {
			t.Errorf("%s knows the job as %s with %v, want %v", h.name, j.State, j.Aggregates, want.Aggregates)
		}
	}
}

// showLogs prints the end of each host's log after a failure.
func (d *demo) showLogs() {
	for _, h := range d.hosts {
		text, err := os.ReadFile(filepath.Join(h.dir, "log"))
		if err != nil {
			continue
		}
		const tail = 4096
		if len(text) > tail {
			text = text[len(text)-tail:]
		}
		fmt.Fprintf(d.o.Out, "--- log of %s\n%s\n", h.name, text)
	}
}
