package demo

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/wait"
)

// soakKeys are what of a host must not grow, with how much more it may be at the end than at
// its beginning: a share, and so much in any case.
var soakKeys = []struct {
	name   string
	share  float64
	anyway float64
}{
	{"rss_bytes", 0.20, 24 << 20}, {"descriptors", 0.20, 24}, {"goroutines", 0.20, 48}, {"disk_bytes", 0.20, 48 << 20},
}

// soakSample is what a host takes at a time.
type soakSample struct {
	round  int
	at     time.Duration
	host   string
	values []float64 // by soakKeys
}

// TestSoak has five real hosts compute jobs, runs of workflows and load tests, with outside
// workers at two gateways, while the log is dropped below its snapshots. Each minute it notes
// what each host takes in the file SKEIN_SOAK_CSV, each hour all logs are verified, and in the end it
// prints the curve. It fails if something has grown: the last quarter is held against the second
// one, since a host has what it needs by then.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("SKEIN_SOAK"))
	if err != nil {
		t.Skip("make soak SOAK=2h runs it")
	}
	every := min(time.Minute, length/20)
	var hits atomic.Uint64
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { hits.Add(1); fmt.Fprint(w, "ok") }))
	t.Cleanup(target.Close)
	d, ctx, urls := startGatewaysIn(t, 5, func(d *demo) {
		d.env = func(int, int) []string {
			return []string{
				"SKEIN_EVENTLOG_SEGMENT_BYTES=1048576", "SKEIN_EVENTLOG_SNAPSHOT_EVENTS=5000", "SKEIN_EVENTLOG_RETAIN_BYTES=16777216",
				"SKEIN_LOAD_ENABLED=true", "SKEIN_LOAD_OWNERS=*", "SKEIN_LOAD_TARGETS=" + strings.TrimPrefix(target.URL, "http://") + "=0",
			}
		}
	}, "[api]\nbearer = \"all\"\n")
	spec, err := d.upload(ctx, filepath.Join(bin, "examples", "pi.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	startHomeWorkers(ctx, t, d, []string{urls[d.hosts[3]], urls[d.hosts[4]]}, 2)
	file := keptShortly(t, workflowFile(t, 2000))
	working, done := context.WithTimeout(ctx, length)
	defer done()
	var all sync.WaitGroup
	var jobs, runs, tests atomic.Int64
	each := func(pause time.Duration, n *atomic.Int64, f func(i int) error) {
		all.Go(func() {
			for i := 0; working.Err() == nil; i++ {
				if err := f(i); err == nil {
					n.Add(1)
				} else if working.Err() == nil {
					t.Logf("%s", err)
				}
				_ = wait.For(working, pause)
			}
		})
	}
	// run takes 0 for a good end, and another code that is as good.
	run := func(i, also int, args ...string) error {
		out, errs, code := d.cli(working, d.hosts[i%len(d.hosts)], args...)
		if code != 0 && code != also {
			return fmt.Errorf("skein %v: exit %d: %s%s", args[:2], code, out, errs)
		}
		return nil
	}
	each(200*time.Millisecond, &jobs, func(i int) error {
		own := spec
		own.Key, own.Iterations, own.Chunk, own.KeepSeconds = fmt.Sprint("soak ", i), 400_000, 20_000, 60
		own.Permission = job.Permission{Outside: true}
		h := d.hosts[i%len(d.hosts)]
		sub, err := h.api.Submit(working, api.SubmitRequest{Spec: own})
		for err == nil {
			var j api.Job
			if j, err = h.api.Job(working, string(sub.Job)); err == nil && j.State.Final() {
				if j.State != job.Completed {
					err = fmt.Errorf("job %s: %s, %s", sub.Job, j.State, j.Reason)
				}
				return err
			}
			if err == nil {
				err = wait.For(working, 100*time.Millisecond)
			}
		}
		return err
	})
	// A step of this workflow fails on purpose: its runs end as partial.
	each(2*time.Second, &runs, func(i int) error {
		return run(i, 8, "workflow", "run", file, "--key", fmt.Sprint("soak ", i), "--follow")
	})
	// On a busy machine a load test calls itself suspect, which is no matter here.
	each(5*time.Second, &tests, func(i int) error {
		return run(i, 6, "load", "run", "--hosts", "2", "--rate", "20", "--for", "5s", target.URL)
	})
	samples := d.sample(ctx, t, every, working.Done())
	all.Wait()
	d.verified(ctx, t)
	t.Logf("%d jobs, %d runs of workflows, %d load tests with %d requests in %s", jobs.Load(), runs.Load(), tests.Load(), hits.Load(), length)
	if jobs.Load() == 0 || runs.Load() == 0 || tests.Load() == 0 {
		t.Error("some of it never ended well")
	}
	t.Log("\n" + soakCurve(samples))
	for _, grown := range soakGrowth(samples) {
		t.Error(grown)
	}
}

// keptShortly has runs of the workflow in a file, and their jobs, be known for a minute: all that
// hosts keep for a week would grow for a week.
func keptShortly(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	short := "keep_seconds = 60\n" + strings.ReplaceAll(string(text), " = { wasm", " = { keep_seconds = 60, wasm")
	if err := os.WriteFile(file, []byte(short), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// sample notes what all hosts take until over is closed, and verifies their logs each hour.
func (d *demo) sample(ctx context.Context, t *testing.T, every time.Duration, over <-chan struct{}) (all []soakSample) {
	t.Helper()
	var out *csv.Writer
	if name := os.Getenv("SKEIN_SOAK_CSV"); name != "" {
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		out = csv.NewWriter(f)
		head := []string{"seconds", "host"}
		for _, k := range soakKeys {
			head = append(head, k.name)
		}
		_ = out.Write(head) // Flush says whether it was
	}
	began, verified := time.Now(), time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for round := 0; ; round++ {
		select {
		case <-over:
			return all
		case <-tick.C:
		}
		for _, h := range d.hosts {
			s, err := h.sample(ctx, t)
			if err != nil {
				t.Errorf("%s: %v", h.name, err)
				continue
			}
			s.round, s.at = round, time.Since(began)
			all = append(all, s)
			if out != nil {
				row := []string{fmt.Sprint(int(s.at.Seconds())), s.host}
				for _, v := range s.values {
					row = append(row, strconv.FormatFloat(v, 'f', 0, 64))
				}
				_ = out.Write(row)
				if out.Flush(); out.Error() != nil {
					t.Fatal(out.Error())
				}
			}
		}
		if time.Since(verified) >= time.Hour {
			verified = time.Now()
			d.verified(ctx, t)
		}
	}
}

// verified has the logs of all hosts verified. A host that has too much to do at the time is
// asked again.
func (d *demo) verified(ctx context.Context, t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for {
		_, errs, code := d.cli(ctx, d.hosts[0], "log", "verify", "--all-hosts")
		if code == 0 {
			return
		}
		if !strings.Contains(errs, "overloaded") || wait.For(ctx, 5*time.Second) != nil {
			t.Errorf("logs are not verified: %s", errs)
			return
		}
	}
}

var goroutinesLine = regexp.MustCompile(`(?m)^go_goroutines (\d+)`)

// sample is what a host takes now.
func (h *host) sample(ctx context.Context, t *testing.T) (s soakSample, err error) {
	t.Helper()
	pid := h.cmd.Process.Pid
	rss, err := procField(fmt.Sprintf("/proc/%d/status", pid), "VmRSS")
	if err != nil {
		return s, err
	}
	descriptors, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return s, err
	}
	m := goroutinesLine.FindStringSubmatch(metricsOf(ctx, t, h))
	if m == nil {
		return s, errors.New("the metrics have no go_goroutines")
	}
	goroutines, err := strconv.Atoi(m[1])
	if err != nil {
		return s, err
	}
	var disk int64
	err = filepath.WalkDir(h.stateDir(), func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil { // else it was removed meanwhile
				disk += info.Size()
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return err
	})
	return soakSample{host: h.name, values: []float64{float64(rss * 1024), float64(len(descriptors)), float64(goroutines), float64(disk)}}, err
}

// soakCurve shows what the hosts took, at about twenty times.
func soakCurve(samples []soakSample) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%8s %-5s %9s %12s %11s %9s\n", "at", "host", "RSS MiB", "descriptors", "goroutines", "disk MiB")
	rounds := 0
	for _, s := range samples {
		rounds = max(rounds, s.round+1)
	}
	for _, s := range samples {
		if s.round%max(1, rounds/20) == 0 || s.round == rounds-1 {
			fmt.Fprintf(&b, "%8s %-5s %9.1f %12.0f %11.0f %9.1f\n", s.at.Round(time.Second), s.host, s.values[0]/(1<<20), s.values[1], s.values[2], s.values[3]/(1<<20))
		}
	}
	return b.String()
}

// soakGrowth says what has grown, by host: the median of the last quarter of the time against
// that of the second one.
func soakGrowth(samples []soakSample) (grown []string) {
	if len(samples) == 0 {
		return []string{"there is no sample"}
	}
	end := samples[len(samples)-1].at
	type key struct {
		host string
		k    int
	}
	early, late := make(map[key][]float64), make(map[key][]float64)
	for _, s := range samples {
		for k, v := range s.values {
			at := key{s.host, k}
			switch {
			case s.at >= end*3/4:
				late[at] = append(late[at], v)
			case s.at >= end/4 && s.at < end/2:
				early[at] = append(early[at], v)
			}
		}
	}
	median := func(list []float64) float64 {
		if len(list) == 0 {
			return math.NaN()
		}
		return slices.Sorted(slices.Values(list))[len(list)/2]
	}
	for at, list := range early {
		is, was, k := median(late[at]), median(list), soakKeys[at.k]
		if !(is <= was+max(k.share*was, k.anyway)) {
			grown = append(grown, fmt.Sprintf("%s of %s grew from %.0f to %.0f", k.name, at.host, was, is))
		}
	}
	slices.Sort(grown)
	return grown
}

// TestSoakGrowth: what stays flat, or wavers, passes; what grows and goes on growing does not.
func TestSoakGrowth(t *testing.T) {
	var samples []soakSample
	for i := range 100 {
		wave := float64(i % 7)
		samples = append(samples, soakSample{
			round: i, at: time.Duration(i) * time.Minute, host: "n1",
			values: []float64{100<<20 + 4e6*wave, 50 + float64(i), 300 + wave, 1e9 * (1 - math.Exp(-float64(i)/5))},
		})
	}
	if got := soakGrowth(samples); len(got) != 1 || !strings.HasPrefix(got[0], "descriptors of n1 grew from 87 to ") {
		t.Errorf("%q", got)
	}
	if soakGrowth(nil) == nil || strings.Count(soakCurve(samples), " n1 ") != 21 {
		t.Error(soakCurve(samples))
	}
}
