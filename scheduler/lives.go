package scheduler

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
)

// Values of Options.LogStarts.
const (
	StartsAuto   = "auto" // of chunks that run for startsAuto
	StartsAlways = "always"
	StartsNever  = "never"

	startsAuto = time.Second
)

// lives is what the log was told of the workers in this term.
type lives struct {
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

func newLives(mode string) *lives {
	return &lives{by: make(map[cluster.NodeID]*life), mode: mode, starts: make(map[job.ID][]event.ChunkStart)}
}

// up takes in that a worker has a stream. It reports whether the log is to hear it.
func (ls *lives) up(e event.WorkerUp) bool {
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

// lost takes in that a worker has no stream any more.
func (ls *lives) lost(n cluster.NodeID, why string, now time.Duration) {
	if l := ls.by[n]; l != nil && l.gone == 0 {
		l.gone, l.why = max(now, 1), why
	}
}

// left takes in that hosts are no members any more.
func (ls *lives) left(member func(cluster.NodeID) bool) (out []event.WorkerDown) {
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

// due returns the workers that are down by now.
func (ls *lives) due(now time.Duration) (out []event.WorkerDown) {
	for n, l := range ls.by {
		if l.up && l.gone > 0 && now-l.gone >= downAfter && (l.down == 0 || now-l.down >= downEvery) {
			l.up, l.down, l.started = false, now, nil
			out = append(out, event.WorkerDown{Worker: n, Reason: l.why})
		}
	}
	slices.SortFunc(out, func(a, b event.WorkerDown) int { return cmp.Compare(a.Worker, b.Worker) })
	return out
}

// running gathers what a worker began.
func (ls *lives) running(n cluster.NodeID, st stream.Status) {
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

// begun returns what began, once for some time.
func (ls *lives) begun(now time.Duration) (out []event.ChunksStarted) {
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

// fact logs what is no decision, as long as there is room and everybody knows what it means.
func (t *term) fact(kind event.Kind, body any) {
	if t.tells(kind) {
		t.batch.add(event.Draft{Kind: kind, Body: body})
	}
}

func (t *term) tells(kind event.Kind) bool {
	return !t.quiet && !t.held && len(t.o.Unaware(kind)) == 0
}

// tellUp logs that a worker has a stream, and what it is.
func (t *term) tellUp(n cluster.NodeID, m stream.Welcome, owner string) {
	own := ownerOf(n, m, owner)
	e := event.WorkerUp{Worker: n, Slots: m.Slots, Executors: m.Executors, Owner: own.Owner, Accept: own.Accept}
	if t.links.lives.up(e) {
		t.fact(event.KindWorkerUp, e)
	}
}

// tellLives logs which workers are down, and what began.
func (t *term) tellLives() {
	now := t.o.Now()
	for _, e := range t.links.lives.due(now) {
		t.fact(event.KindWorkerDown, e)
	}
	for _, e := range t.links.lives.begun(now) {
		t.fact(event.KindChunksStarted, e)
	}
}
