package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/internal/wasmtest"
	"github.com/skein-project/skein/offline"
)

// script writes a program for jobs and returns its path, which no other
// process's arguments contain.
func script(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return path
}

// answer is what a script prints as the result of its chunk.
const answer = `printf '{"iterations":%s,"metrics":{"x":{"n":%s,"mean":1,"m2":0,"min":1,"max":1}}}' $SKEIN_ITERATIONS $SKEIN_ITERATIONS`

// processesOf lists the living processes whose arguments contain mark.
func processesOf(mark string) []string {
	var out []string
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range names {
		if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), mark) {
			out = append(out, filepath.Base(filepath.Dir(name)))
		}
	}
	return out
}

// submit submits a job until it is acknowledged, at most a minute. The holder
// may lose its lease meanwhile on a busy machine; spec.Key makes it one job.
func submit(ctx context.Context, t *testing.T, h *host, spec job.Spec) (sub api.SubmitResponse) {
	t.Helper()
	until(ctx, t, "the submission to be acknowledged", func() bool {
		var err error
		if sub, err = h.api.Submit(ctx, api.SubmitRequest{Spec: spec}); err != nil {
			t.Logf("submission: %v", err)
		}
		return err == nil
	})
	return sub
}

// until polls until ok, at most some minutes: a machine may have much else to do.
func until(ctx context.Context, t *testing.T, what string, ok func() bool) {
	t.Helper()
	began := time.Now()
	for !ok() {
		if time.Since(began) > 3*time.Minute {
			t.Fatalf("waited 3 minutes for %s", what)
		}
		if err := wait.For(ctx, lookEvery()); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// A cancel ends all processes of a job within 2 s, also of programs that do not
// listen to SIGTERM and have children. SKEIN_PROVE=1 runs 200 chunks at a time.
func TestCancelEndsAllProcesses(t *testing.T) {
	parallel(t)
	slots, limit := 8, 10*time.Second // a busy machine is no proof
	if os.Getenv("SKEIN_PROVE") == "1" {
		slots, limit = 67, 2*time.Second
	}
	deaf := script(t, "deaf", "trap '' TERM\nsh -c 'sleep 1000' "+filepath.Base(t.TempDir())+" &\nwhile :; do sleep 1000; done")
	d, ctx := startWith(t, 3, environ("SKEIN_EXEC_PROGRAMS=deaf="+deaf, fmt.Sprint("SKEIN_WORKER_SLOTS=", slots)))
	h := d.hosts[0]
	running := 3 * slots
	chunks := 2 * running // as many wait
	sub := submit(ctx, t, h, job.Spec{
		Key: "deaf", Executor: job.ExecutorExec, Program: "deaf", Iterations: uint64(chunks), Chunk: 1,
	})
	until(ctx, t, "all slots to be busy", func() bool { return len(processesOf(deaf)) >= running })
	asked := time.Now()
	if _, err := h.api.StopJob(ctx, string(sub.Job), "enough"); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "all processes to end", func() bool { return len(processesOf(deaf)) == 0 })
	took := time.Since(asked)
	t.Logf("%d chunks that ran: all processes ended %s after the stop was asked for", running, took)
	if took > limit {
		t.Errorf("it took %s, want at most %s", took, limit)
	}
	for _, h := range d.hosts {
		until(ctx, t, "the worker of "+h.name+" to be idle", func() bool {
			st, err := h.api.Status(ctx)
			return err == nil && st.Worker.Running == 0 && st.Worker.Queued == 0
		})
	}
}

// Draining and restarting one host after the other during a job costs no chunk
// an attempt.
func TestDrainAndRollingRestart(t *testing.T) {
	parallel(t)
	chunks := 150
	if os.Getenv("SKEIN_PROVE") == "1" {
		chunks = 1500
	}
	nap := script(t, "nap", "sleep 0.3\n"+answer)
	d, ctx := startWith(t, 3, environ("SKEIN_EXEC_PROGRAMS=nap="+nap, "SKEIN_WORKER_SLOTS=3"))
	sub := submit(ctx, t, d.hosts[0], job.Spec{
		Key: "nap", Executor: job.ExecutorExec, Program: "nap", Iterations: uint64(chunks), Chunk: 1, Attempts: 1,
	})
	for i, h := range d.hosts {
		other := d.hosts[(i+1)%3]
		if _, err := other.api.Drain(ctx, api.DrainRequest{Node: cluster.NodeID(h.name)}); err != nil {
			t.Fatalf("drain %s through %s: %v", h.name, other.name, err)
		}
		idle := func(st api.Status) bool { return st.Worker.Draining && st.Worker.Running+st.Worker.Queued == 0 }
		if err := h.await(ctx, "be drained", idle); err != nil {
			t.Fatal(err)
		}
		restart := func() {
			t.Helper()
			if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			<-h.done
			if err := h.run(); err != nil {
				t.Fatal(err)
			}
		}
		restart()
		if err := h.await(ctx, "still be drained after a restart", idle); err != nil {
			t.Fatal(err)
		}
		if _, err := h.api.Drain(ctx, api.DrainRequest{Undo: true}); err != nil {
			t.Fatal(err)
		}
		busy := func(st api.Status) bool { return st.State == api.StateOK && !st.Worker.Draining }
		if err := h.await(ctx, "work again", busy); err != nil {
			t.Fatal(err)
		}
		restart() // while it works
		if err := h.await(ctx, "be back", func(st api.Status) bool { return st.State == api.StateOK }); err != nil {
			t.Fatal(err)
		}
	}
	job := finish(ctx, t, d.hosts[0], sub.Job)
	t.Logf("%d chunks: %d attempts, %d given back or lost, %d failed", chunks, job.Attempts.Assigned, job.Attempts.Reclaimed, job.Attempts.Failed)
	if job.Attempts.Failed != 0 || job.Chunks.Failed != 0 || job.Chunks.Accepted != chunks {
		t.Errorf("%+v, attempts %+v", job.Chunks, job.Attempts)
	}
}

// plainSkein is the program without the race detector, with which a module takes
// minutes to compile.
func plainSkein() string {
	if filepath.Base(bin) == "race" {
		return filepath.Join(filepath.Dir(bin), "skein")
	}
	return filepath.Join(bin, "skein")
}

// A local job gives the results of a cluster, bit for bit, and leaves nothing.
func TestLocalJobEqualsCluster(t *testing.T) {
	parallel(t)
	d, ctx := start(t, 1)
	pi := filepath.Join(bin, "examples", "pi.wasm")
	spec, err := d.upload(ctx, pi)
	if err != nil {
		t.Fatal(err)
	}
	spec.Key, spec.Iterations, spec.Chunk, spec.Seed = "both", 1_000_000, 33_333, 7
	sub := submit(ctx, t, d.hosts[0], spec)
	want := finish(ctx, t, d.hosts[0], sub.Job)
	module, err := os.ReadFile(pi)
	if err != nil {
		t.Fatal(err)
	}
	local := offline.LocalJob{Spec: spec.WithDefaults(), Module: module, RunnerArgv: []string{plainSkein(), "runner"}, Modules: wasmtest.Modules(t)}
	got, err := offline.RunLocal(ctx, local)
	if err != nil {
		t.Fatal(err)
	}
	if got.State != job.Completed || !reflect.DeepEqual(got.Aggregates, want.Aggregates) || got.Iterations != want.Iterations {
		t.Errorf("locally %s %v %+v\nin the cluster %v %+v", got.State, got.Iterations, got.Aggregates, want.Iterations, want.Aggregates)
	}
	if got.APIVersion != want.APIVersion || got.Node != "local" || got.ObservedAt.Before(got.SubmittedAt) || got.SubmittedAt.IsZero() || got.FinishedAt == nil {
		t.Errorf("header %+v, submitted %s, finished %v", got.Header, got.SubmittedAt, got.FinishedAt)
	}

	alone := local // what only a cluster could fulfil is not waited for
	alone.Spec.Permission.Access, alone.Spec.Zones, alone.Spec.Replication.Policy = job.AccessOwner, []string{"eu"}, job.CheckAll
	if got, err = offline.RunLocal(ctx, alone); err != nil || !reflect.DeepEqual(got.Aggregates, want.Aggregates) {
		t.Errorf("of its owner's hosts in a zone, computed twice: %v, %s %+v", err, got.State, got.Aggregates)
	}
	alone.Spec.After = []string{string(sub.Job)}
	if _, err = offline.RunLocal(ctx, alone); err == nil || !strings.Contains(err.Error(), "after names jobs of a cluster") {
		t.Errorf("after a job of a cluster: %v", err)
	}

	auto := local
	auto.Spec.Key, auto.Spec.Chunk = "auto", 0
	auto.Spec = auto.Spec.WithDefaults()
	if got, err = offline.RunLocal(ctx, auto); err != nil || got.State != job.Completed || got.Chunks.Total > 256 {
		t.Errorf("a small job has %d chunks: %s, %v", got.Chunks.Total, got.State, err)
	}
	t.Logf("a small job has %d chunks", got.Chunks.Total) // 256 where a trial takes too long to compile

	local.Module = []byte("no module")
	if _, err := offline.RunLocal(ctx, local); err == nil {
		t.Error("garbage ran")
	}
	deaf := script(t, "deaf", "trap '' TERM\nwhile :; do sleep 1000; done")
	local = offline.LocalJob{
		Spec:       job.Spec{Key: "k", Executor: job.ExecutorExec, Program: "deaf", Iterations: 3, Chunk: 1}.WithDefaults(),
		Exec:       config.Exec{Programs: map[string][]string{"deaf": {deaf}}, Grace: 100 * time.Millisecond},
		RunnerArgv: local.RunnerArgv, Slots: 3,
	}
	stopped, stop := context.WithCancel(ctx)
	defer stop()
	local.Progress = func(api.Job) {
		if len(processesOf(deaf)) == 3 {
			stop()
		}
	}
	if job, err := offline.RunLocal(stopped, local); err == nil || job.Chunks.Total != 3 {
		t.Errorf("stopped: %v, %+v", err, job.Chunks)
	}
	if left := processesOf(deaf); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	local.Spec.Program = "other"
	if _, err := offline.RunLocal(ctx, local); err == nil || !strings.Contains(err.Error(), "not allowed") {
		t.Errorf("a program that is not allowed: %v", err)
	}
}

// TestRefusalSaysWhen: an owner at its limit is told when to come again, through
// any host, and the client does.
func TestRefusalSaysWhen(t *testing.T) {
	parallel(t)
	hold := script(t, "hold", "sleep 1000")
	quick := script(t, "quick", answer)
	d, ctx := startWith(t, 2, environ("SKEIN_EXEC_PROGRAMS=hold="+hold+",quick="+quick, "SKEIN_JOBS_OWNER_OPEN=1"))
	spec := func(program string) api.SubmitRequest {
		return api.SubmitRequest{Spec: job.Spec{Key: program, Executor: job.ExecutorExec, Program: program, Iterations: 2, Chunk: 1}}
	}
	first, err := d.hosts[0].api.Submit(ctx, spec("hold"))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range d.hosts {
		eventually(ctx, t, 30*time.Second, "a second job through "+h.name+" is refused", func() error {
			short, cancel := context.WithTimeout(ctx, 4*time.Second)
			defer cancel()
			_, err := h.api.Submit(short, spec("quick"))
			if p, ok := errors.AsType[*api.Problem](err); ok && p.Status == 429 && p.Code == api.CodeOverloaded &&
				p.RetryAfterSeconds != nil && *p.RetryAfterSeconds == 5 && strings.Contains(p.Detail, "1 open jobs, the limit of an owner") {
				return nil
			}
			return fmt.Errorf("answered: %w", err)
		})
	}
	eventually(ctx, t, 30*time.Second, "n2 knows the job", func() error {
		_, err := d.hosts[1].api.Job(ctx, string(first.Job))
		return err
	})
	began := time.Now()
	if _, err := d.hosts[1].api.StopJob(ctx, string(first.Job), "room"); err != nil {
		t.Fatal(err)
	}
	t.Logf("stopped after %s", time.Since(began))
	patient, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if _, err := d.hosts[1].api.Submit(patient, spec("quick")); err != nil {
		t.Errorf("when there was room again: %v", err)
	}
}

// TestKilledWorkerKeepsResults kills a daemon between the end of its chunks and
// their acceptance: the next process sends the results, and nothing runs again.
func TestKilledWorkerKeepsResults(t *testing.T) {
	parallel(t)
	const chunks = 6
	ran := filepath.Join(t.TempDir(), "ran")
	count := script(t, "count", "sleep 5\necho $SKEIN_CHUNK_ID >> "+ran+"\n"+answer)
	d, ctx := startWith(t, 3, environ(fmt.Sprint("SKEIN_WORKER_SLOTS=", chunks)))
	holder, other, h := d.hosts[0], d.hosts[1], d.hosts[2]
	signal := func(h *host, s syscall.Signal) {
		t.Helper()
		if err := h.cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	h.env = append(h.env, "SKEIN_EXEC_PROGRAMS=count="+count) // on one host only: nobody else can run it
	signal(h, syscall.SIGTERM)
	<-h.done
	if err := h.run(); err != nil {
		t.Fatal(err)
	}
	ok := func(st api.Status) bool { return st.State == api.StateOK }
	if err := h.await(ctx, "be back", ok); err != nil {
		t.Fatal(err)
	}
	sub := submit(ctx, t, holder, job.Spec{
		Key: "count", Executor: job.ExecutorExec, Program: "count", Iterations: chunks, Chunk: 1, Attempts: 1,
	})
	if err := h.await(ctx, "run all chunks", func(st api.Status) bool { return st.Worker.Running == chunks }); err != nil {
		t.Fatal(err)
	}
	for _, o := range []*host{holder, other} { // nobody accepts anything any more
		signal(o, syscall.SIGSTOP)
		defer o.cmd.Process.Signal(syscall.SIGCONT) //nolint:errcheck // it may have ended
	}
	if err := h.await(ctx, "keep all results", func(st api.Status) bool { return st.Worker.Kept == chunks }); err != nil {
		t.Fatal(err)
	}
	signal(h, syscall.SIGKILL)
	<-h.done
	signal(holder, syscall.SIGCONT)
	signal(other, syscall.SIGCONT)
	if err := h.run(); err != nil {
		t.Fatal(err)
	}
	job := finish(ctx, t, holder, sub.Job)
	if job.Chunks.Accepted != chunks || job.Attempts.Failed != 0 || len(job.Workers) != 1 || job.Workers[0].Node != cluster.NodeID(h.name) {
		t.Errorf("%+v, attempts %+v, workers %+v", job.Chunks, job.Attempts, job.Workers)
	}
	text, err := os.ReadFile(ran)
	if n := len(strings.Fields(string(text))); err != nil || n != chunks {
		t.Errorf("%d chunks ran, %d of the job: %v", n, chunks, err)
	}
}
