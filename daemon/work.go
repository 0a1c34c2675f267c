package daemon

import (
	"context"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/plan/fair"
	"github.com/skein-project/skein/worker"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/executor"
)

// work is what runs jobs on this host, and schedules them while it holds.
type work struct {
	log       zerolog.Logger
	history   *history
	artefacts *artefact.Store
	wasm      *executor.WASM
	worker    *worker.Worker
	sched     *scheduler.Scheduler
}

// newWork makes what runs jobs.
func (g *ground) newWork(id *identity, h *history) (*work, error) {
	w, p := &work{log: g.log, history: h}, h.peers
	var err error
	if w.artefacts, err = artefact.New(artefact.Options{
		Dir: filepath.Join(g.cfg.StateDir, "artefacts"), Quota: g.cfg.Jobs.ArtefactBytes,
		Dial: p.dialer(artefact.Proto), Peers: p.owners, Logger: g.log, Registerer: g.reg,
	}); err != nil {
		return nil, err
	}
	if w.wasm, err = executor.NewWASM(executor.WASMOptions{
		Artefacts: w.artefacts, Slots: g.cfg.Worker.Slots, MemoryBytes: g.cfg.Worker.MemoryBytes,
		CacheDir: filepath.Join(g.cfg.StateDir, "wasm-cache"), RunnerArgv: g.o.RunnerArgv, Logger: g.log, Registerer: g.reg,
	}); err != nil {
		return nil, err
	}
	executors := map[string]worker.Executor{job.ExecutorWASM: w.wasm}
	if len(g.cfg.Exec.Programs) > 0 {
		if executors[job.ExecutorExec], err = g.newExec(w.artefacts); err != nil {
			return nil, err
		}
	}
	if w.worker, err = worker.New(worker.Options{
		Slots: g.cfg.Worker.Slots, Queue: g.cfg.Worker.Queue, MemoryBytes: g.cfg.Worker.MemoryBytes,
		Executors:  executors,
		OutboxFile: filepath.Join(g.cfg.StateDir, "outbox"),
		DrainFile:  filepath.Join(g.cfg.StateDir, "worker-drained"),
		Now:        bootTime,
		Accept:     func() job.Acceptance { return g.conf().Acceptance() },
		Runs:       func(a job.Acceptance, owner string) bool { return scheduler.HostRuns(h, id.Node, a, owner) },
		MinTerm:    p.promised, CheckHolder: p.checkHolder,
		Logger: g.log, Registerer: g.reg,
	}); err != nil {
		return nil, err
	}
	w.sched, err = scheduler.New(scheduler.Options{
		Self: id.Node, Log: h, MayAct: p.mayAct, Dial: p.dialer(scheduler.Proto), Now: bootTime,
		Unaware: p.unaware, Plan: planConfig(g.cfg.Jobs), LogStarts: g.cfg.Jobs.LogStarts, Trial: w.wasm.Trial, Logger: g.log, Registerer: g.reg,
	})
	return w, err
}

// newExec makes what runs this host's own programs.
func (g *ground) newExec(artefacts *artefact.Store) (*executor.Exec, error) {
	c := g.cfg.Exec
	return executor.NewExec(executor.ExecOptions{
		Programs: c.Programs, Artefacts: artefacts, Slots: g.cfg.Worker.Slots, RunnerArgv: g.o.RunnerArgv,
		ScratchDir: c.ScratchDir, ScratchBytes: c.ScratchBytes, User: c.User, Cgroup: c.Cgroup, Processes: c.Processes,
		MemoryBytes: min(g.cfg.Worker.MemoryBytes, job.MaxMemoryBytes), Grace: c.Grace,
		Logger: g.log, Registerer: g.reg,
	})
}

// planConfig returns the limits that the operator set for owners and workers.
func planConfig(c config.Jobs) plan.Config {
	rate := func(perSecond, burst int) bucket.Rate {
		return bucket.Rate{PerSecond: float64(perSecond), Burst: float64(perSecond) * float64(burst)}
	}
	return plan.Config{
		MaxJobs: c.Open, Completions: rate(c.WorkerResults, 10),
		Owner: fair.Limits{Submits: rate(c.OwnerJobs, 50), Chunks: rate(c.OwnerChunks, 20), Open: c.OwnerOpen},
	}
}

// Periods of fetching and removing artefacts.
const (
	tendEvery    = 3 * time.Second
	collectEvery = 10 * time.Minute
	keepArtefact = 24 * time.Hour
)

// tend fetches the artefacts that open jobs need, so that a job survives the loss
// of the hosts to which its module was uploaded, and removes those that no open
// job needs and that were not stored recently. It ends with ctx.
func (w *work) tend(ctx context.Context) error {
	tick := wait.NewTicker(tendEvery)
	defer tick.Stop()
	collected := time.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			tick.Next()
		}
		keep := map[cluster.Hash]bool{}
		w.history.View(func(s *state.State) {
			for _, j := range s.Jobs() {
				if !j.State.Final() {
					for _, h := range j.Spec.Hashes() {
						keep[h] = true
					}
				}
			}
		})
		for h := range keep {
			if _, ok := w.artefacts.Has(h); !ok {
				if err := w.artefacts.Fetch(ctx, h, nil); err != nil {
					w.log.Debug().Err(err).Msg("artefact of an open job not fetched")
				}
			}
		}
		if time.Since(collected) < collectEvery {
			continue
		}
		collected = time.Now()
		freed, err := w.artefacts.Collect(func(h cluster.Hash) bool { return keep[h] }, keepArtefact)
		if err != nil {
			w.log.Warn().Err(err).Msg("artefacts not collected")
		} else if freed > 0 {
			w.log.Info().Int64("bytes", freed).Msg("artefacts collected")
		}
	}
}
