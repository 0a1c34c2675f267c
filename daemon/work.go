package daemon

import (
	"context"
	"os"
	"path/filepath"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/backend/kept"
	"github.com/skein-project/skein/backend/loads"
	"github.com/skein-project/skein/backend/spread"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/gateway/crew"
	"github.com/skein-project/skein/internal/breaker"
	"github.com/skein-project/skein/internal/bucket"
	"github.com/skein-project/skein/internal/sysclock"
	"github.com/skein-project/skein/load/bundle"
	"github.com/skein-project/skein/load/slice"
	"github.com/skein-project/skein/pressure"
	"github.com/skein-project/skein/relief"
	"github.com/skein-project/skein/scheduler"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/plan/fair"
	"github.com/skein-project/skein/store/postgres"
	"github.com/skein-project/skein/store/redis"
	"github.com/skein-project/skein/worker"
	"github.com/skein-project/skein/worker/artefact"
	"github.com/skein-project/skein/worker/executor"
)

// work is what runs jobs on this host, and schedules them while it holds.
type work struct {
	log     zerolog.Logger
	history *history
	*kept.Stores
	relief   *relief.Relief
	wasm     *executor.WASM
	worker   *worker.Worker
	crew     *crew.Crew   // nil: none from outside attach in the memory of this host
	redis    *redis.Store // nil: nor in a Redis
	sched    *scheduler.Scheduler
	database *postgres.Service // nil: there is none
	slices   *slice.Host       // parts in load tests
}

// newWork makes what runs jobs.
func (g *ground) newWork(id *identity, h *history) (*work, error) {
	w, p := &work{log: g.log, history: h}, h.peers
	var err error
	if w.relief, err = relief.New(relief.Options{
		Coord: func() relief.Coord { return p.svc }, Scheduler: func() relief.Scheduler { return w.sched }, Log: h, Dir: g.cfg.StateDir, Root: os.DirFS("/"),
		Setting:   func() pressure.Setting { return pressure.Of(g.conf().OverloadEnabled, g.conf().OverloadDelay()) },
		MinTenure: g.timing.MinTenure, Note: h.journal.Note, Now: sysclock.Boot, Logger: g.log, Registerer: g.reg,
	}); err != nil {
		return nil, err
	}
	p.relief = w.relief
	if w.Stores, err = kept.Open(kept.Options{
		Dir: g.cfg.StateDir, Self: id.Node, Limits: g.cfg.Jobs, View: p.view, Log: h, Dial: w.relief.Dialer(breaker.Blob, p.dialer(artefact.Proto)), Peers: p.owners, Logger: g.log, Registerer: g.reg,
	}); err != nil {
		return nil, err
	}
	if w.wasm, err = executor.NewWASM(executor.WASMOptions{
		Artefacts: w.Artefacts, Outputs: w.Outputs, Slots: g.cfg.Worker.Slots, MemoryBytes: g.cfg.Worker.MemoryBytes,
		ScratchDir: filepath.Join(g.cfg.StateDir, "wasm-scratch"), CacheDir: filepath.Join(g.cfg.StateDir, "wasm-cache"), RunnerArgv: g.o.RunnerArgv, Logger: g.log, Registerer: g.reg,
	}); err != nil {
		return nil, err
	}
	executors := map[string]worker.Executor{job.ExecutorWASM: w.wasm}
	if len(g.cfg.Exec.Programs) > 0 {
		if executors[job.ExecutorExec], err = g.newExec(w.Stores); err != nil {
			return nil, err
		}
	}
	switch c := g.cfg.Redis; {
	case g.cfg.Gateway.Store == config.StoreRedis:
		if w.redis, err = redis.New(redis.Options{
			Server:  redis.Server{Addresses: c.Addresses, Sentinel: c.Sentinel, PasswordFile: c.PasswordFile, TLSCA: c.TLSCA, Prefix: c.Prefix},
			Cluster: id.Cluster.String(), Self: id.Node, ResultBytes: c.ResultBytes, Logger: g.log, Registerer: g.reg,
		}); err != nil {
			return nil, err
		}
	case g.cfg.Gateway.Listen.IsValid():
		if w.crew, err = crew.New(crew.Options{MinTerm: p.promised, CheckHolder: p.checkHolder, Now: sysclock.Boot, Logger: g.log}); err != nil {
			return nil, err
		}
	}
	if w.slices, err = slice.New(slice.Options{
		Self: id.Node, Cluster: id.Cluster.String(), Agent: "skein-load/" + g.o.Version, Allowed: func() slice.Allowed { return loads.Allowed(g.conf().LoadTests) }, Member: loads.MemberOf(h), Never: id.networks,
		Fetch:   func(ctx context.Context, b cluster.Hash) ([]byte, error) { return w.Artefacts.Get(ctx, b, bundle.Max) },
		Running: func() int { v := w.worker.View(); return len(v.Running) + v.Queued }, Logger: g.log, Registerer: g.reg,
	}); err != nil {
		return nil, err
	}
	if w.worker, err = worker.New(worker.Options{
		Slots: g.cfg.Worker.Slots, Queue: g.cfg.Worker.Queue, MemoryBytes: g.cfg.Worker.MemoryBytes,
		Executors:  executors,
		OutboxFile: filepath.Join(g.cfg.StateDir, "outbox"),
		DrainFile:  filepath.Join(g.cfg.StateDir, "worker-drained"),
		Now:        sysclock.Boot,
		Accept:     func() job.Acceptance { return g.conf().Acceptance() },
		Runs:       func(a job.Acceptance, owner string) bool { return scheduler.HostRuns(h, id.Node, a, owner) },
		Takes:      func() bool { return w.relief.Level().TakesChunks() && !w.slices.Held() },
		MinTerm:    p.promised, CheckHolder: p.checkHolder, Crew: func(holder cluster.NodeID) bool { return w.crew != nil || w.redis != nil && holder == id.Node },
		Words: w.Words, KeepLog: w.KeepLog, OutputRoom: w.OutputRoom, Pressure: func() uint8 { return uint8(w.relief.Level()) },
		Logger: g.log, Registerer: g.reg,
	}); err != nil {
		return nil, err
	}
	if c := g.cfg.Postgres; c.DSNFile != "" {
		if w.database, err = postgres.New(postgres.Options{
			Cluster: id.Cluster.String(), Self: id.Node, DSNFile: c.DSNFile, Intake: c.Intake, Sink: c.Sink, Chunks: c.Chunks,
			Log: h, Settle: h.settle, Logger: g.log, Registerer: g.reg,
		}); err != nil {
			return nil, err
		}
	}
	w.sched, err = scheduler.New(scheduler.Options{
		Self: id.Node, Log: h, MayAct: p.mayAct, Dial: p.dialer(scheduler.Proto), RTT: p.rtt, DialCrew: w.redis.Dialer(id.Node, p.dialer(scheduler.CrewProto)), Now: sysclock.Boot,
		Unaware: p.unaware, Plan: planConfig(g.cfg.Jobs), LogStarts: g.cfg.Jobs.LogStarts, Trial: w.wasm.Trial, Keep: spread.New(id.Node, p.view, w.Artefacts).Keep, Find: w.Find, Read: w.Read, MayForget: w.database.MayForget, Logger: g.log, Registerer: g.reg,
	})
	return w, err
}

// newExec makes what runs this host's own programs.
func (g *ground) newExec(stores *kept.Stores) (*executor.Exec, error) {
	c := g.cfg.Exec
	return executor.NewExec(executor.ExecOptions{
		Programs: c.Programs, Artefacts: stores.Artefacts, Outputs: stores.Outputs, Slots: g.cfg.Worker.Slots, RunnerArgv: g.o.RunnerArgv,
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
