package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/worker"
)

// LocalJob is a job for RunLocal.
type LocalJob struct {
	Spec   cluster.JobSpec // its hashes are filled in here
	Module []byte          // nil with a program
	Input  []byte          // nil: none
	Slots  int             // 0: one per processor
	Exec   config.Exec     // programs that may run
	// RunnerArgv starts this program as a chunk runner; nil: the running one.
	RunnerArgv []string
	// Progress gets the job now and then; nil: nobody wants to know.
	Progress func(api.Job)
}

// localNode is the one worker of a local job.
const localNode cluster.NodeID = "local"

// How often a local job is looked at, and shown.
const (
	localEvery    = 20 * time.Millisecond
	progressTicks = 10
)

// RunLocal runs a job on this machine alone, without a cluster and without a
// trace: the scheduler, the worker and the fold of a host, over a log in
// memory. Chunks, validation, retries and results are those of a cluster. At
// the end of ctx the job is stopped, and what ran has ended on return.
func RunLocal(ctx context.Context, j LocalJob) (api.Job, error) {
	dir, err := os.MkdirTemp("", "skein-local-")
	if err != nil {
		return api.Job{}, fmt.Errorf("run a local job: %w", err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover in the temporary directory
	w, spec, err := j.prepare(dir)
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
		Now: func() time.Duration { return time.Since(began) }, Logger: zerolog.Nop(),
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
	both.Wait() // what runs has ended then
	return out, err
}

// prepare checks the job and makes the worker.
func (j LocalJob) prepare(dir string) (*worker.Worker, cluster.JobSpec, error) {
	spec := j.Spec
	store, err := worker.NewArtefacts(worker.ArtefactsOptions{Dir: filepath.Join(dir, "artefacts"), Logger: zerolog.Nop()})
	if err != nil {
		return nil, spec, err
	}
	if j.Module != nil {
		if err := worker.CheckModule(j.Module); err != nil {
			return nil, spec, err
		}
		if spec.Artefact, err = store.Put(bytes.NewReader(j.Module), cluster.MaxModuleBytes); err != nil {
			return nil, spec, err
		}
	}
	if j.Input != nil {
		if spec.Config, err = store.Put(bytes.NewReader(j.Input), cluster.MaxConfigBytes); err != nil {
			return nil, spec, err
		}
	}
	if err := spec.Validate(); err != nil {
		return nil, spec, err
	}
	executors := map[string]worker.Executor{}
	if spec.Executor == cluster.ExecutorExec {
		if _, ok := j.Exec.Programs[spec.Program]; !ok {
			return nil, spec, fmt.Errorf("program %q is not allowed on this host: name it in [exec.programs] of the configuration", spec.Program)
		}
		executors[cluster.ExecutorExec], err = worker.NewExec(worker.ExecOptions{
			Programs: j.Exec.Programs, Artefacts: store, Slots: j.Slots, RunnerArgv: j.RunnerArgv, ScratchDir: filepath.Join(dir, "scratch"),
			ScratchBytes: j.Exec.ScratchBytes, User: j.Exec.User, Cgroup: j.Exec.Cgroup, Processes: j.Exec.Processes,
			MemoryBytes: spec.MemoryBytes, Grace: j.Exec.Grace, Logger: zerolog.Nop(),
		})
	} else {
		executors[cluster.ExecutorWASM], err = worker.NewWASM(worker.WASMOptions{
			Artefacts: store, Slots: j.Slots, RunnerArgv: j.RunnerArgv, CacheDir: filepath.Join(dir, "cache"),
			MemoryBytes: spec.MemoryBytes, FetchPatience: -1, Logger: zerolog.Nop(),
		})
	}
	if err != nil {
		return nil, spec, err
	}
	w, err := worker.New(worker.Options{
		Slots: j.Slots, Executors: executors, DrainTimeout: time.Millisecond, Logger: zerolog.Nop(),
	})
	return w, spec, err
}

// watchLocal submits the job and waits for its end.
func watchLocal(ctx context.Context, sched *scheduler.Scheduler, log *memoryLog, spec cluster.JobSpec, ended <-chan error, progress func(api.Job)) (api.Job, error) {
	var id cluster.JobID
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
				out = apiJob(job, rate, now)
				tellAll(&out, job, s.Open(id))
				out.Holder, out.Term = localNode, localTerm
			}
		})
		return out
	}
	tick := time.NewTicker(localEvery)
	defer tick.Stop()
	for {
		sub, err := sched.Submit(ctx, spec, "local", scheduler.WaitLocal)
		if err == nil {
			id, began = sub.Job, time.Now()
			break
		}
		if !errors.Is(err, scheduler.ErrNotHolder) || ctx.Err() != nil { // it has not begun yet
			return api.Job{}, err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	for n := 1; ; n++ {
		now := look()
		if now.State.Final() {
			return now, nil
		}
		select {
		case <-ctx.Done():
			return now, ctx.Err()
		case err := <-ended:
			return now, errors.Join(errors.New("the local scheduler or worker ended"), err)
		case <-tick.C:
			if progress != nil && n%progressTicks == 0 {
				progress(now)
			}
		}
	}
}

// localTerm is the one term of a local job.
const localTerm cluster.Term = 1

// memoryLog is the event log of one process that nobody else reads.
type memoryLog struct {
	mu    sync.Mutex
	state *state.State
	seq   uint64
	last  cluster.HLC
}

func newMemoryLog() *memoryLog {
	l := &memoryLog{state: state.New()}
	if _, err := l.Append(context.Background(), []cluster.Draft{{
		Term: localTerm, Kind: cluster.KindTermStart, Body: cluster.TermStart{Term: localTerm, Profile: cluster.ProfileLAN},
	}}); err != nil {
		panic("daemon: " + err.Error()) // the first event is the same each time
	}
	return l
}

// Append implements scheduler.Log.
func (l *memoryLog) Append(_ context.Context, drafts []cluster.Draft) ([]cluster.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events := make([]cluster.Event, len(drafts))
	for i, d := range drafts {
		body, err := json.Marshal(d.Body)
		if err != nil {
			return nil, err
		}
		l.last = max(l.last+1, cluster.NewHLC(time.Now(), 0))
		events[i] = cluster.Event{
			Source: cluster.SourceID{Node: localNode, Inc: 1}, Seq: l.seq + uint64(i) + 1, HLC: l.last, Term: d.Term, Kind: d.Kind, Body: body,
		}
	}
	for _, e := range events {
		l.state.Apply(e)
	}
	l.seq += uint64(len(events))
	return events, nil
}

// TakesWork implements scheduler.Log.
func (*memoryLog) TakesWork() bool { return true }

// WaitStable implements scheduler.Log: what is in memory is as stable as it
// gets.
func (*memoryLog) WaitStable(context.Context, uint64) (int, error) { return 1, nil }

// View implements scheduler.Log.
func (l *memoryLog) View(f func(*state.State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.state)
}
