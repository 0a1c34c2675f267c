package series

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// Bounds of an answer, and of what is counted one by one until it is made.
const (
	MaxMetrics = 12
	MaxWorkers = 12
	MaxReasons = 12
	maxCounted = 1024
)

// Options say what is followed.
type Options struct {
	Job      job.ID
	Spec     job.Spec
	From, To time.Time
	Points   int // spans between them, at least 1
	// Settled are the chunks of which only a result that settled it counts.
	Settled map[int]bool
}

// Fold follows one job through its events.
type Fold struct {
	o       Options
	step    time.Duration
	scratch *event.Scratch
	taken   []bool       // chunks whose result is counted
	settled map[int]bool // chunks that were settled after a result was counted

	iterations []uint64 // in each span
	metrics    map[string]*metric
	workers    map[cluster.NodeID][]uint64 // iterations in each span
	failures   map[failure][]uint64        // attempts in each span
}

// metric is one as it grew.
type metric struct {
	all   job.Metric
	marks map[int]job.Metric // at the end of spans in which it grew
}

// failure is why attempts came to nothing.
type failure struct {
	reason    string
	reclaimed bool
}

// others stands for all that there was no room for.
const others = ""

// New returns a Fold that has seen nothing.
func New(o Options) *Fold {
	if !o.To.After(o.From) {
		o.To = o.From.Add(time.Second)
	}
	chunks := 0
	if o.Spec.Chunk > 0 && o.Spec.Iterations > 0 {
		chunks = o.Spec.Chunks()
	}
	return &Fold{
		o: o, step: o.To.Sub(o.From) / time.Duration(o.Points), scratch: event.NewScratch(), taken: make([]bool, chunks), settled: map[int]bool{},
		iterations: make([]uint64, o.Points), metrics: map[string]*metric{}, workers: map[cluster.NodeID][]uint64{}, failures: map[failure][]uint64{},
	}
}

// Settled are the chunks that were counted with another result than the one that
// settled them: nil in most cases.
func (f *Fold) Settled() map[int]bool { return f.settled }

// Apply takes in the next event. Those about other jobs, and those that cannot be what
// they say, change nothing.
func (f *Fold) Apply(e event.Event) {
	span := int(e.HLC.Time().Sub(f.o.From) / max(1, f.step))
	span = min(max(0, span), f.o.Points-1)
	switch e.Kind {
	case event.KindChunkAccepted:
		var b event.ChunkAccepted
		if event.ReadBody(&b, &e, f.scratch) == nil && b.Job == f.o.Job {
			f.accept(span, event.Accept{Chunk: b.Chunk, Attempt: b.Attempt, Worker: b.Worker, Settles: b.Settles, Result: b.Result})
		}
	case event.KindChunksAccepted:
		var b event.ChunksAccepted
		if event.ReadBody(&b, &e, f.scratch) == nil && b.Job == f.o.Job {
			for _, a := range b.Accepts {
				f.accept(span, a)
			}
		}
	case event.KindChunkFailed, event.KindChunkReclaimed:
		var b event.ChunkReclaimed // the fields that both have
		if json.Unmarshal(e.Body, &b) == nil && b.Job == f.o.Job && b.Chunk >= 0 && b.Chunk < len(f.taken) {
			count(f, f.failures, failure{b.Reason, e.Kind == event.KindChunkReclaimed}, failure{reason: others}, span, 1)
		}
	}
}

func (f *Fold) accept(span int, a event.Accept) {
	if a.Chunk < 0 || a.Chunk >= len(f.taken) {
		return
	}
	_, n := f.o.Spec.ChunkRange(a.Chunk)
	switch {
	case a.Result.Validate(n) != nil:
		return
	case f.taken[a.Chunk]:
		if a.Settles && !f.o.Settled[a.Chunk] {
			f.settled[a.Chunk] = true
		}
		return
	case f.o.Settled[a.Chunk] && !a.Settles:
		return
	}
	f.taken[a.Chunk] = true
	f.iterations[span] += n
	count(f, f.workers, a.Worker, others, span, n)
	for name, m := range a.Result.Metrics {
		had := f.metrics[name]
		if had == nil {
			if len(f.metrics) == maxCounted {
				continue
			}
			had = &metric{marks: map[int]job.Metric{}}
			f.metrics[name] = had
		}
		m.Sketch = nil
		had.all = had.all.Merge(m)
		had.marks[span] = had.all
	}
}

// count adds to what is counted under a name, or under that of the others where there
// are too many.
func count[K comparable](f *Fold, of map[K][]uint64, name, rest K, span int, n uint64) {
	if of[name] == nil {
		if len(of) >= maxCounted {
			name = rest
		}
		if of[name] == nil {
			of[name] = make([]uint64, f.o.Points)
		}
	}
	of[name][span] += n
}

// Series returns what the events so far make.
func (f *Fold) Series() api.JobSeries {
	out := api.JobSeries{
		Job: f.o.Job, From: f.o.From, To: f.o.To, StepSeconds: f.step.Seconds(), Total: f.o.Spec.Iterations,
		Iterations: rising(f.iterations), RatePerSecond: make([]float64, f.o.Points),
	}
	for i, n := range f.iterations {
		out.RatePerSecond[i] = float64(n) / f.step.Seconds()
	}
	names := slices.Sorted(maps.Keys(f.metrics))
	out.MetricsOmitted = max(0, len(names)-MaxMetrics)
	for _, name := range names[:len(names)-out.MetricsOmitted] {
		out.Metrics = append(out.Metrics, f.metrics[name].series(name, f.o.Points))
	}
	first, rest := largest(f.workers, MaxWorkers, others, cmp.Compare[cluster.NodeID])
	for _, name := range first {
		out.Workers = append(out.Workers, api.WorkerSeries{Node: name, Iterations: rising(f.workers[name])})
	}
	if rest != nil {
		out.Workers = append(out.Workers, api.WorkerSeries{Iterations: rising(rest)})
	}
	why, rest := largest(f.failures, MaxReasons, failure{reason: others}, func(a, b failure) int { return cmp.Compare(a.reason, b.reason) })
	for _, w := range why {
		out.Failures = append(out.Failures, api.FailureSeries{Reason: w.reason, Reclaimed: w.reclaimed, Attempts: rising(f.failures[w])})
	}
	if rest != nil {
		out.Failures = append(out.Failures, api.FailureSeries{Attempts: rising(rest)})
	}
	return out
}

// series is the metric at the end of each span; there is none before the first result.
func (m *metric) series(name string, points int) api.MetricSeries {
	out := api.MetricSeries{Name: name, N: make([]uint64, points), Mean: make([]*float64, points), Low: make([]*float64, points), High: make([]*float64, points)}
	var at *api.Summary
	for i := range points {
		if now, grew := m.marks[i]; grew {
			at = new(api.Summarise(now))
		}
		if at != nil {
			out.N[i], out.Mean[i], out.Low[i], out.High[i] = at.N, &at.Mean, at.CI95Low, at.CI95High
		}
	}
	return out
}

// rising sums up.
func rising(each []uint64) []uint64 {
	out, sum := make([]uint64, len(each)), uint64(0)
	for i, n := range each {
		sum += n
		out[i] = sum
	}
	return out
}

// largest are the names under which most was counted, the most first, and what was
// counted under all others together; nil: there are none.
func largest[K comparable](of map[K][]uint64, most int, rest K, compare func(a, b K) int) (names []K, together []uint64) {
	total := func(name K) (sum uint64) {
		for _, n := range of[name] {
			sum += n
		}
		return sum
	}
	for name := range of {
		if name != rest {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b K) int { return cmp.Or(cmp.Compare(total(b), total(a)), compare(a, b)) })
	together = slices.Clone(of[rest])
	for len(names) > most {
		last := of[names[len(names)-1]]
		if names = names[:len(names)-1]; together == nil {
			together = make([]uint64, len(last))
		}
		for i, n := range last {
			together[i] += n
		}
	}
	return names, together
}
