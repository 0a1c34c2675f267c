package offline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/backend/convert"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/worker"
	"github.com/skein-project/skein/worker/executor"
)

// LocalJob is a job for RunLocal.
type LocalJob struct {
	Spec   job.Spec    // its hashes are filled in here
	Module []byte      // nil with a program
	Input  []byte      // nil: none
	Slots  int         // 0: one per processor
	Exec   config.Exec // programs that may run
	// Files are the paths of what each chunk finds, by name. What chunks leave is written to
	// the directory To, as CHUNK/NAME, when the job has ended.
	Files map[string]string
	To    string
	// RunnerArgv starts this program as a chunk runner; nil: the running one.
	RunnerArgv []string
	// Modules is a directory with modules that were compiled before, for tests; empty: none.
	Modules string
	// Progress is called with the job now and then; may be nil.
	Progress func(api.Job)
}

// localNode is the one worker of a local job.
const localNode cluster.NodeID = "local"

// A local job is examined every localEvery, and reported every progressTicks of it.
const (
	localEvery    = 20 * time.Millisecond
	progressTicks = 10
)

// RunLocal runs a job on this machine alone, without a cluster: the scheduler, the
// worker and the fold of a host, over a log in memory. Chunks, validation, retries
// and results are those of a cluster. When ctx ends the job is stopped. Nothing is
// running when it returns, and nothing is left on disk.
func RunLocal(ctx context.Context, j LocalJob) (api.Job, error) {
	dir, err := os.MkdirTemp("", "skein-local-")
	if err != nil {
		return api.Job{}, fmt.Errorf("run a local job: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover in the temporary directory
	stores, spec, err := j.store(dir)
	if err != nil {
		return api.Job{}, err
	}
	w, trial, err := j.prepare(dir, spec, stores)
	if err != nil {
		return api.Job{}, err
	}
	log := newMemoryLog()
	began := time.Now()
	sched, err := scheduler.New(scheduler.Options{
		Self: localNode, Log: log, MayAct: func(cluster.Term) bool { return true },
		Dial: func(context.Context, cluster.NodeID) (net.Conn, error) {
			near, far := net.Pipe()
			go w.Serve(context.WithoutCancel(ctx), localNode, far) // ends with near, or with the worker
			return near, nil
		},
		Now: func() time.Duration { return time.Since(began) }, Trial: trial, Tick: localEvery, Logger: zerolog.Nop(),
	})
	if err != nil {
		return api.Job{}, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var both sync.WaitGroup
	ended := make(chan error, 2)
	both.Go(func() { ended <- w.Run(running) })
	both.Go(func() { ended <- sched.Run(running, localTerm) })
	out, err := watchLocal(ctx, sched, log, spec, ended, j.Progress)
	stop()
	both.Wait()
	if err != nil || j.To == "" {
		return out, err
	}
	var left []job.OutputFile
	log.View(func(s *state.State) { left = s.Outputs(out.ID) })
	return out, stores.write(left, j.To)
}

// trial is scheduler.Options.Trial.
type trial = func(context.Context, job.Spec) float64

// prepare makes the worker, and a trial where there can be one.
func (j LocalJob) prepare(dir string, spec job.Spec, stores localStores) (w *worker.Worker, try trial, err error) {
	executors := map[string]worker.Executor{}
	if spec.Executor == job.ExecutorExec {
		if _, ok := j.Exec.Programs[spec.Program]; !ok {
			return nil, nil, fmt.Errorf("program %q is not allowed on this host: name it in [exec.programs] of the configuration", spec.Program)
		}
		executors[job.ExecutorExec], err = executor.NewExec(executor.ExecOptions{
			Programs: j.Exec.Programs, Artefacts: stores.in, Outputs: stores.out, Slots: j.Slots, RunnerArgv: j.RunnerArgv, ScratchDir: filepath.Join(dir, "scratch"),
			ScratchBytes: j.Exec.ScratchBytes, User: j.Exec.User, Cgroup: j.Exec.Cgroup, Processes: j.Exec.Processes,
			MemoryBytes: spec.MemoryBytes, Grace: j.Exec.Grace, Logger: zerolog.Nop(),
		})
	} else {
		var wasm *executor.WASM
		wasm, err = executor.NewWASM(executor.WASMOptions{
			Artefacts: stores.in, Outputs: stores.out, ScratchDir: filepath.Join(dir, "scratch"), Slots: j.Slots, RunnerArgv: j.RunnerArgv, CacheDir: cmp.Or(j.Modules, filepath.Join(dir, "cache")),
			MemoryBytes: spec.MemoryBytes, FetchPatience: -1, Logger: zerolog.Nop(),
		})
		executors[job.ExecutorWASM], try = wasm, wasm.Trial
	}
	if err != nil {
		return nil, nil, err
	}
	w, err = worker.New(worker.Options{
		Slots: j.Slots, Executors: executors, OutputRoom: func() bool { return true }, DrainTimeout: time.Millisecond, Logger: zerolog.Nop(),
	})
	return w, try, err
}

// watchLocal submits the job and waits for its end.
func watchLocal(ctx context.Context, sched *scheduler.Scheduler, log *memoryLog, spec job.Spec, ended <-chan error, progress func(api.Job)) (api.Job, error) {
	var id job.ID
	var began time.Time
	look := func() api.Job {
		var out api.Job
		log.View(func(s *state.State) {
			if job, ok := s.Job(id); ok {
				now := time.Now()
				rate := 0.0
				if d := now.Sub(began).Seconds(); d > 0 {
					rate = float64(job.Iterations) / d
				}
				out = convert.Job(job, rate, now)
				convert.JobDetails(&out, job, s.Open(id), &coord.View{})
				out.Holder, out.Term = localNode, localTerm
				applied, _, _ := s.Counts()
				out.Header = api.NewHeader(localNode, now, applied)
			}
		})
		return out
	}
	tick := time.NewTicker(localEvery)
	defer tick.Stop()
	// How many slots there are decides about the chunks.
	for !slices.ContainsFunc(sched.Workers(), func(w plan.WorkerView) bool { return w.Connected }) {
		select {
		case <-ctx.Done():
			return api.Job{}, ctx.Err()
		case err := <-ended:
			return api.Job{}, errors.Join(errLocalEnded, err)
		case <-tick.C:
		}
	}
	sub, err := sched.Submit(ctx, spec, "local", scheduler.WaitLocal, true)
	if err != nil {
		return api.Job{}, err
	}
	id, began = sub.Job, time.Now()
	for n := 1; ; n++ {
		now := look()
		if now.State.Final() {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case err := <-ended:
			return now, errors.Join(errLocalEnded, err)
		case <-tick.C:
			if progress != nil && n%progressTicks == 0 {
				progress(now)
			}
		}
	}
}

var errLocalEnded = errors.New("the local scheduler or worker ended")

// localTerm is the one term of a local job.
const localTerm cluster.Term = 1
