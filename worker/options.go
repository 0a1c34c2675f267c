package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/worker/executor"
	"github.com/skein-project/skein/worker/words"
)

// Defaults and limits of Options.
const (
	DefaultOutboxBytes  = 64 << 20
	DefaultKeepFor      = time.Hour
	DefaultDrainTimeout = 3 * time.Second
	DefaultStatusEvery  = 2 * time.Second
	// DefaultFenceAfter is below the 120 s after which a silent host counts as
	// dead and its work goes elsewhere.
	DefaultFenceAfter = 100 * time.Second
)

// Options configures a Worker. Zero fields take the default.
type Options struct {
	// Slots is how many chunks run at once; default: the number of CPUs.
	Slots int
	// Queue is how many chunks may wait beyond those that run; default:
	// 16 per slot, at least 256. An Assign that does not fit ends the stream
	// with Refused, and nothing of it is taken.
	Queue int
	// MemoryBytes is how much an attempt may have here; 0: holders are not told.
	MemoryBytes uint64
	// Executors by name, at least one. The Worker runs them.
	Executors map[string]Executor
	// OutboxFile keeps results over the end of this process, whatever ends it;
	// empty: none.
	OutboxFile string
	// DrainFile is there while an operator drains this worker; empty: a drain
	// ends with the process.
	DrainFile string
	// OutboxBytes bounds the results kept; while it is reached no chunk starts.
	OutboxBytes int
	// KeepFor is how long a result is kept even when the outbox is full.
	KeepFor time.Duration
	// DrainTimeout is how long running chunks may go on after Run's context
	// ended.
	DrainTimeout time.Duration
	// FenceAfter is how long work goes on while no holder is heard.
	FenceAfter time.Duration
	// Accept is whose jobs this host runs, as configured now. It is asked every
	// StatusEvery. Nil: everybody's.
	Accept func() job.Acceptance
	// Runs reports that a host which accepts that runs the jobs of owner: whose the
	// host is, and who is in groups, is in the log. Nil: it is nobody's, and there
	// are no groups.
	Runs func(a job.Acceptance, owner string) bool
	// Now is a clock that goes on in suspend; nil: one that does not.
	Now func() time.Duration
	// StatusEvery is the period of Status frames; of those that say once more that
	// there is nothing to do, one in idleStatus is sent.
	StatusEvery time.Duration
	// MinTerm returns the highest term that this host knows of, else nil.
	MinTerm func() cluster.Term
	// CheckHolder refuses a Hello by an error: the member from does not hold
	// term as far as this host knows. Nil accepts every member.
	CheckHolder func(from cluster.NodeID, term cluster.Term) error
	// Words keeps what attempts write to standard error; nil: nothing is kept.
	Words *words.Ring
	// KeepLog stores what a failed attempt said where it outlives this host; nil: it does not.
	KeepLog func(text []byte) (cluster.Hash, error)
	// OutputRoom says whether this host keeps the outputs of another chunk; nil: the host
	// takes no jobs with files.
	OutputRoom func() bool
	// Takes says whether this host can do with more chunks now; nil: always.
	Takes func() bool
	// Pressure is how loaded this host is, as overload.Level; nil: not at all.
	Pressure func() uint8
	// Crew says whether this host serves stream.CrewProto as well to a holder; default: to
	// none.
	Crew func(holder cluster.NodeID) bool

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // may be nil
}

func (o Options) withDefaults() (Options, error) {
	o.Slots = cmp.Or(o.Slots, runtime.NumCPU())
	if o.Queue == 0 {
		o.Queue = max(256, 16*o.Slots)
	}
	o.OutboxBytes = cmp.Or(o.OutboxBytes, DefaultOutboxBytes)
	o.KeepFor = cmp.Or(o.KeepFor, DefaultKeepFor)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, DefaultDrainTimeout)
	o.StatusEvery = cmp.Or(o.StatusEvery, DefaultStatusEvery)
	o.FenceAfter = cmp.Or(o.FenceAfter, DefaultFenceAfter)
	if o.Now == nil {
		began := time.Now()
		o.Now = func() time.Duration { return time.Since(began) }
	}
	if o.Accept == nil {
		o.Accept = func() job.Acceptance { return job.Acceptance{Accept: job.AcceptPublic} }
	}
	if o.Runs == nil {
		o.Runs = func(a job.Acceptance, owner string) bool {
			return a.Settle("").Allows("", owner, func(string, string) bool { return false })
		}
	}
	if o.Takes == nil {
		o.Takes = func() bool { return true }
	}
	if o.Pressure == nil {
		o.Pressure = func() uint8 { return 0 }
	}
	if o.MinTerm == nil {
		o.MinTerm = func() cluster.Term { return 0 }
	}
	if o.CheckHolder == nil {
		o.CheckHolder = func(cluster.NodeID, cluster.Term) error { return nil }
	}
	switch {
	case o.Slots < 1 || o.Slots > executor.MaxSlots:
		return o, fmt.Errorf("worker: slots is %d, want 1-%d", o.Slots, executor.MaxSlots)
	case o.Queue < 1:
		return o, fmt.Errorf("worker: queue is %d, want at least 1", o.Queue)
	case o.OutboxBytes < 0 || o.KeepFor < 0 || o.DrainTimeout < 0 || o.StatusEvery < 0 || o.FenceAfter < 0:
		return o, errors.New("worker: a limit is negative")
	case len(o.Executors) == 0:
		return o, errors.New("worker: no executor")
	}
	for name, e := range o.Executors {
		if name == "" || e == nil {
			return o, fmt.Errorf("worker: executor %q is empty", name)
		}
	}
	return o, nil
}

// Executor runs attempts. The worker calls Run once, in a goroutine of its
// own, and Execute from many goroutines, at most once at a time for a slot.
type Executor interface {
	// Run serves Execute until ctx ends, then ends what still runs.
	Run(ctx context.Context) error
	// Execute runs one attempt in a slot, counted from 0. It returns soon
	// after ctx ends. The text of an error is the failure reason that the
	// submitter reads. The result has been validated.
	Execute(ctx context.Context, slot int, t executor.Task) (job.ChunkResult, error)
}
