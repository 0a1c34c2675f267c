package lives

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/stream"
)

// When the log hears of workers.
const (
	// downAfter is how long a worker has no stream before it is down: one that is
	// back sooner was not away.
	downAfter = 10 * time.Second
	// downEvery is the least time between two that one worker is down.
	downEvery = 30 * time.Second
	// startsEvery is for how long starts of chunks are gathered, maxStarts how many.
	startsEvery = time.Second
	maxStarts   = 2048
	maxEntries  = 512 // in one event
)

// Values of LogStarts: which starts of chunks the log hears of.
const (
	StartsAuto   = "auto" // of chunks that run for startsAuto
	StartsAlways = "always"
	StartsNever  = "never"

	startsAuto = time.Second
)

// Lives is what the log was told of the workers in this term.
type Lives struct {
	by     map[cluster.NodeID]*life
	mode   string // of LogStarts
	starts map[job.ID][]event.ChunkStart
	count  int           // of starts
	told   time.Duration // when starts were given last
}

// life is what the log was told of one worker.
type life struct {
	up   bool
	said event.WorkerUp
	gone time.Duration // since when it has no stream; 0: it has one
	why  string
	down time.Duration // when it was last told to be down; 0: never

	started map[job.Attempt]bool // that were told and still run
}

// New returns Lives of nobody; mode is one of the values of LogStarts.
func New(mode string) *Lives {
	return &Lives{by: make(map[cluster.NodeID]*life), mode: mode, starts: make(map[job.ID][]event.ChunkStart)}
}

// Up takes in that a worker has a stream. It reports whether the log is to hear it.
func (ls *Lives) Up(e event.WorkerUp) bool {
	l := ls.by[e.Worker]
	if l == nil {
		l = &life{}
		ls.by[e.Worker] = l
	}
	l.gone = 0
	if l.up && reflect.DeepEqual(l.said, e) {
		return false
	}
	l.up, l.said = true, e
	return true
}

// Lost takes in that a worker has no stream any more.
func (ls *Lives) Lost(n cluster.NodeID, why string, now time.Duration) {
	if l := ls.by[n]; l != nil && l.gone == 0 {
		l.gone, l.why = max(now, 1), why
	}
}

// Left takes in that hosts are no members any more.
func (ls *Lives) Left(member func(cluster.NodeID) bool) (out []event.WorkerDown) {
	for _, n := range slices.Sorted(maps.Keys(ls.by)) {
		if member(n) {
			continue
		}
		if ls.by[n].up {
			out = append(out, event.WorkerDown{Worker: n, Reason: "it is no member any more"})
		}
		delete(ls.by, n)
	}
	return out
}

// Due returns the workers that are down by now.
func (ls *Lives) Due(now time.Duration) (out []event.WorkerDown) {
	for n, l := range ls.by {
		if l.up && l.gone > 0 && now-l.gone >= downAfter && (l.down == 0 || now-l.down >= downEvery) {
			l.up, l.down, l.started = false, now, nil
			out = append(out, event.WorkerDown{Worker: n, Reason: l.why})
		}
	}
	slices.SortFunc(out, func(a, b event.WorkerDown) int { return cmp.Compare(a.Worker, b.Worker) })
	return out
}

// Running gathers what a worker began.
func (ls *Lives) Running(n cluster.NodeID, st stream.Status) {
	l := ls.by[n]
	if l == nil || ls.mode == StartsNever {
		return
	}
	now := make(map[job.Attempt]bool, len(l.started))
	for _, p := range st.Progress {
		switch long := ls.mode == StartsAlways || p.Seconds >= startsAuto.Seconds(); {
		case l.started[p.Attempt]:
			now[p.Attempt] = true
		case long && ls.count < maxStarts:
			now[p.Attempt] = true
			ls.count++
			ls.starts[p.Job] = append(ls.starts[p.Job], event.ChunkStart{Chunk: p.Chunk, Attempt: p.Number, Worker: n, Seconds: p.Seconds})
		}
	}
	l.started = now
}

// Begun returns what began, once for some time.
func (ls *Lives) Begun(now time.Duration) (out []event.ChunksStarted) {
	if ls.count == 0 || now-ls.told < startsEvery {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(ls.starts)) {
		for part := range slices.Chunk(ls.starts[id], maxEntries) {
			out = append(out, event.ChunksStarted{Job: id, Starts: part})
		}
	}
	ls.starts, ls.count, ls.told = make(map[job.ID][]event.ChunkStart), 0, now
	return out
}
