package jobs

import (
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/canon"
)

// work is the chunks of a job and what follows from them. The zero work is that
// of a sealed job: nothing changes it.
type work struct {
	chunks     []chunk
	count      [chunkStates]int // chunks by chunkState
	iterations uint64           // of accepted chunks
	micros     int64            // run time of accepted attempts
	disputed   int
	metrics    trees
	// blurred: a chunk had results that differ, one of which is in the sketches
	// and cannot be taken out.
	blurred bool
	shares  map[cluster.NodeID]*share
}

// share is what a worker has done of a job.
type share struct {
	chunks     int
	iterations uint64
}

func newWork(chunks int) work {
	return work{
		chunks: make([]chunk, chunks), count: [chunkStates]int{chunkPending: chunks},
		metrics: make(trees), shares: make(map[cluster.NodeID]*share),
	}
}

func (w *work) clone() work {
	c := *w
	c.chunks = slices.Clone(w.chunks)
	for i := range c.chunks {
		c.chunks[i].tries = slices.Clone(c.chunks[i].tries)
	}
	if w.metrics != nil {
		c.metrics = make(trees, len(w.metrics))
	}
	for name, t := range w.metrics {
		c.metrics[name] = t.clone()
	}
	if w.shares != nil {
		c.shares = make(map[cluster.NodeID]*share, len(w.shares))
	}
	for n, sh := range w.shares {
		copied := *sh
		c.shares[n] = &copied
	}
	return c
}

// change runs f on a chunk and keeps the counts true. The chunks of a sealed
// job are gone.
func (w *work) change(i int, f func(c *chunk)) {
	if w.chunks == nil {
		return
	}
	c := &w.chunks[i]
	w.count[c.state()]--
	f(c)
	w.count[c.state()]++
}

func (w *work) assign(a job.Attempt, term cluster.Term, at cluster.HLC) {
	w.change(a.Chunk, func(c *chunk) {
		if c.accept != nil {
			return
		}
		t := c.try(a.Number, a.Worker)
		t.assigned = true
		t.term, t.at = max(t.term, term), max(t.at, at)
	})
}

func (w *work) fail(b event.ChunkFailed) {
	w.change(b.Chunk, func(c *chunk) {
		if c.accept != nil {
			return
		}
		t := c.try(b.Attempt, b.Worker)
		t.failed = true
		t.final = t.final || b.Final
		t.parked = t.parked || b.Final && b.Parked
	})
}

func (w *work) reclaim(b event.ChunkReclaimed) {
	w.change(b.Chunk, func(c *chunk) {
		if c.accept == nil {
			c.try(b.Attempt, b.Worker).reclaimed = true
		}
	})
}

// release takes back what attempts up to this one meant for a chunk.
func (w *work) release(i, attempt int) {
	w.change(i, func(c *chunk) {
		if c.accept == nil {
			c.released = max(c.released, attempt)
		}
	})
}

// take folds a result of a chunk of n iterations; the first one counts. files says that it
// came with the files that are known of the chunk.
func (w *work) take(i int, n uint64, a *accept, metrics map[string]job.Metric, files bool) {
	w.change(i, func(c *chunk) {
		c.tries, c.released = nil, 0
		old := c.accept
		alike := old == nil || w.metrics.holds(i, metrics)
		same := alike && (old == nil || files)
		w.blurred = w.blurred || !alike
		settled := a.settles || old != nil && old.settles
		switch {
		case c.disputed && settled:
			c.disputed = false
			w.disputed--
		case !same && !c.disputed && !settled:
			c.disputed = true
			w.disputed++
		}
		if old != nil && !a.before(old) {
			return
		}
		if old != nil {
			w.credit(old, n, -1)
		}
		c.accept = a
		w.credit(a, n, 1)
		w.metrics.store(len(w.chunks), i, metrics)
	})
}

func (w *work) credit(a *accept, iterations uint64, sign int) {
	sh, ok := w.shares[a.worker]
	if !ok {
		sh = &share{}
		w.shares[a.worker] = sh
	}
	sh.chunks += sign
	w.micros += int64(sign) * a.micros
	if sign > 0 {
		sh.iterations += iterations
		w.iterations += iterations
		return
	}
	sh.iterations -= iterations
	w.iterations -= iterations
}

// result sums up the chunks; Skipped is left out.
func (w *work) result() *job.Result {
	r := &job.Result{
		Accepted: w.count[chunkAccepted], Failed: w.count[chunkFailed] + w.count[chunkParked], Disputed: w.disputed,
		Iterations: w.iterations, Micros: w.micros,
	}
	r.Metrics = w.metrics.metrics(w.blurred)
	r.Anomalies, r.GivenUp = w.anomalies(), w.givenUp()
	for _, n := range slices.Sorted(maps.Keys(w.shares)) {
		if sh := w.shares[n]; sh.chunks > 0 {
			r.Workers = append(r.Workers, job.WorkShare{Worker: n, Chunks: sh.chunks, Iterations: sh.iterations})
		}
	}
	return r
}

// givenUp counts the chunks that were given up, by the worker that was the last to try.
func (w *work) givenUp() (out []job.FailShare) {
	if w.count[chunkFailed]+w.count[chunkParked] == 0 {
		return nil
	}
	on := map[cluster.NodeID]int{}
	for i := range w.chunks {
		if st := w.chunks[i].state(); st == chunkFailed || st == chunkParked {
			on[w.chunks[i].lastTry()]++
		}
	}
	for _, n := range slices.Sorted(maps.Keys(on)) {
		out = append(out, job.FailShare{Worker: n, Chunks: on[n]})
	}
	return out
}

// skipped lists the chunks without a result.
func (w *work) skipped() (spans []job.Span) {
	for i := range w.chunks {
		switch n := len(spans); {
		case w.chunks[i].accept != nil:
		case n > 0 && spans[n-1].Last == i-1:
			spans[n-1].Last = i
		case n == job.MaxSpans:
			return spans
		default:
			spans = append(spans, job.Span{First: i, Last: i})
		}
	}
	return spans
}

// open lists the chunks that are neither accepted nor given up.
func (w *work) open() []OpenChunk {
	open := make([]OpenChunk, 0, w.count[chunkPending]+w.count[chunkAssigned])
	for i := range w.chunks {
		if c := &w.chunks[i]; c.state() <= chunkAssigned {
			open = append(open, c.openView(i))
		}
	}
	return open
}

// unfinished lists the chunks that are not accepted, and those of which
// differing results were.
func (w *work) unfinished() (out []OpenChunk) {
	for i := range w.chunks {
		c := &w.chunks[i]
		switch st := c.state(); {
		case st == chunkAccepted && c.disputed:
			out = append(out, OpenChunk{Chunk: i, Disputed: true, Attempts: c.accept.attempt, FailedOn: []cluster.NodeID{c.accept.worker}})
		case st == chunkAccepted:
		default:
			o := c.openView(i)
			o.GivenUp = st > chunkAssigned
			out = append(out, o)
		}
	}
	return out
}

func (w *work) write(to *canon.Writer) {
	for i := range w.chunks {
		w.chunks[i].write(to)
		to.Flush()
	}
	to.Flag(w.blurred)
	w.metrics.write(to, w.blurred)
}

// read reads the chunks of a job, each of at least one byte, and what follows
// from them.
func (w *work) read(r *canon.Reader, spec job.Spec) {
	total := spec.Chunks()
	if total > r.Len() {
		r.Fail("%d chunks in %d bytes", total, r.Len())
		return
	}
	*w = work{chunks: make([]chunk, total), metrics: make(trees), shares: make(map[cluster.NodeID]*share)}
	var accepts []accept // room for some more
	for i := range w.chunks {
		c := &w.chunks[i]
		if len(accepts) == 0 {
			accepts = make([]accept, min(256, total))
		}
		if c.read(r, &accepts[0]); c.accept != nil {
			accepts = accepts[1:]
		}
		if !r.OK() {
			return
		}
		w.count[c.state()]++
		if c.accept != nil {
			_, n := spec.ChunkRange(i)
			w.credit(c.accept, n, 1)
		}
		if c.disputed {
			w.disputed++
		}
	}
	w.readMetrics(r, spec)
}

func (w *work) readMetrics(r *canon.Reader, spec job.Spec) {
	w.blurred = r.Flag()
	for n := r.Count(); n > 0 && r.OK(); n-- {
		name := r.Text(job.MaxMetricName)
		r.Check(name != "" && w.metrics[name] == nil, "metric")
		if len(w.chunks) > r.Len() {
			r.Fail("%d chunks in %d bytes", len(w.chunks), r.Len())
		}
		if !r.OK() {
			return
		}
		t := newTree(len(w.chunks))
		for i := range w.chunks {
			m := r.Moments()
			if m.N > 0 {
				_, n := spec.ChunkRange(i)
				r.Check(w.chunks[i].accept != nil && m.Validate(n) == nil, "metric")
			}
			t.levels[0][i] = m
		}
		t.build()
		if r.Flag() {
			t.readMarks(r, w.blurred)
		}
		w.metrics[name] = t
	}
}
