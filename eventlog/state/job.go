package state

import (
	"maps"
	"math"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// maxJobIDLen bounds the names under which events are parked.
const maxJobIDLen = 64

// job is the fold of the events of one job.
type foldedJob struct {
	id    job.ID
	known bool // its submission was applied
	// parked events wait for the submission.
	parked []event.Event

	spec        job.Spec
	owner       string
	submittedAt key
	top         key    // the latest event
	bad         uint64 // events that could not be what they say
	total       int    // chunks

	attempts int // assignments made
	failures int
	reclaims int
	recent   []Failure // the latest, oldest first

	// What follows from the chunks; all of it is nil or zero once the job is
	// sealed.
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

	// sealed is the result for good, as the first end that has one tells it:
	// what is learned of the chunks afterwards changes it no more.
	sealed   *job.Result
	sealedAt key

	queued   stamped[string] // why it waited at first
	stop     stamped[stop]   // the first intent to end it
	doneAt   key
	done     event.JobDone
	firstTry cluster.HLC
	lastDone cluster.HLC // last accept
}

// stop is an intent to end a job.
type stop struct {
	actor, reason string
	cause         job.StopCause
}

type share struct {
	chunks     int
	iterations uint64
}

type chunkState uint8

const (
	chunkPending chunkState = iota
	chunkAssigned
	chunkAccepted
	chunkFailed
	chunkParked
	chunkStates int = iota
)

// chunk is the fold of the events of one chunk:
// pending < assigned < failed < parked < accepted. A release takes back what
// attempts up to its own meant, in whatever order both are learned.
type chunk struct {
	accept   *accept
	tries    []try // dropped with the accept
	released int   // attempts up to this one give it up no more
	disputed bool  // results that differ were accepted, and none that settles it
}

type try struct {
	attempt   int
	worker    cluster.NodeID
	term      cluster.Term
	at        cluster.HLC
	assigned  bool
	failed    bool
	reclaimed bool
	final     bool // with failed: it gave the chunk up
	parked    bool // with final: for want of hosts, not for the work's own failure
}

func (t try) open() bool { return t.assigned && !t.failed && !t.reclaimed }

// accept is never changed. Its metrics are the chunk's leaves of the trees.
type accept struct {
	at      key
	attempt int
	worker  cluster.NodeID
	micros  int64
	settles bool
}

// before reports whether a counts and o does not: one that settles a dispute
// beats those that made it, and of equals the first wins.
func (a *accept) before(o *accept) bool {
	if a.settles != o.settles {
		return a.settles
	}
	return a.at.less(o.at)
}

// givenUp reports whether the chunk is tried no more, and whether that is for want
// of hosts.
func (c *chunk) givenUp() (is, parked bool) {
	for _, t := range c.tries {
		if t.final && t.attempt > c.released {
			is, parked = true, parked || t.parked
		}
	}
	return is, parked
}

func (c *chunk) state() chunkState {
	up, parked := c.givenUp()
	switch {
	case c.accept != nil:
		return chunkAccepted
	case parked:
		return chunkParked
	case up:
		return chunkFailed
	case slices.ContainsFunc(c.tries, try.open):
		return chunkAssigned
	}
	return chunkPending
}

func (c *chunk) try(attempt int, worker cluster.NodeID) *try {
	for i := range c.tries {
		if c.tries[i].attempt == attempt && c.tries[i].worker == worker {
			return &c.tries[i]
		}
	}
	c.tries = append(c.tries, try{attempt: attempt, worker: worker})
	return &c.tries[len(c.tries)-1]
}

func (s *State) job(id job.ID) *foldedJob {
	j, ok := s.jobs[id]
	if !ok {
		j = &foldedJob{id: id}
		s.jobs[id] = j
	}
	return j
}

// jobSubmitted folds a submission; the first one defines the job.
func (s *State) jobSubmitted(e *event.Event, b event.JobSubmitted) (rebuild bool) {
	if b.Job == "" || len(b.Job) > maxJobIDLen || b.Spec.Validate() != nil || b.Chunks != b.Spec.Chunks() {
		s.malformed++
		return false
	}
	at := keyOf(e)
	if s.buried(b.Job, e) {
		return false
	}
	j := s.job(b.Job)
	j.top = j.top.later(keyOf(e))
	if w, ok := s.winners[b.Job]; ok && w != at {
		if at.less(w) {
			s.winners[b.Job] = at
			return true
		}
		return false
	}
	switch {
	case !j.known:
		s.define(j, at, b)
	case !at.less(j.submittedAt):
	case j.spec.Equal(b.Spec) && j.owner == b.Owner:
		j.submittedAt = at
	case s.inBase(b.Job):
		s.refuse(refusal(e, "another submission of job "+string(b.Job)+" counts below the base"))
	default:
		// Everything that was folded was folded into another job.
		s.winners[b.Job] = at
		return true
	}
	return false
}

func (s *State) define(j *foldedJob, at key, b event.JobSubmitted) {
	j.known, j.submittedAt, j.spec, j.owner, j.total = true, at, b.Spec, b.Owner, b.Chunks
	j.chunks = make([]chunk, b.Chunks)
	j.count = [chunkStates]int{chunkPending: b.Chunks}
	j.metrics = make(trees)
	j.shares = make(map[cluster.NodeID]*share)
	parked := j.parked
	j.parked = nil
	for i := range parked {
		s.applyJob(&parked[i])
	}
}

// applyJob folds a live event of a job, or parks it.
func (s *State) applyJob(e *event.Event) {
	switch e.Kind {
	case event.KindJobQueued:
		if b, ok := decode[event.JobWaiting](s, e); ok {
			if j := s.ready(b.Job, e); j != nil {
				j.queued.first(keyOf(e), clip(b.Reason, cluster.MaxReason))
			}
		}
	case event.KindJobStopped:
		if b, ok := decode[event.JobStopped](s, e); ok {
			if j := s.ready(b.Job, e); j != nil {
				s.note(j, j.toStop(keyOf(e), b))
			}
		}
	case event.KindJobDone:
		if b, ok := decode[event.JobDone](s, e); ok {
			if j := s.ready(b.Job, e); j != nil {
				s.note(j, j.finish(keyOf(e), b))
			}
		}
	case event.KindChunksAssigned:
		if b, ok := decode[event.ChunksAssigned](s, e); ok {
			if j := s.ready(b.Job, e); j != nil {
				s.note(j, j.assign(e, b))
			}
		}
	case event.KindChunkFailed:
		if b, ok := decode[event.ChunkFailed](s, e); ok {
			if j := s.ready(b.Job, e); j != nil {
				s.note(j, j.fail(keyOf(e), b))
			}
		}
	case event.KindChunkReclaimed:
		if b, ok := decode[event.ChunkReclaimed](s, e); ok {
			if j := s.ready(b.Job, e); j != nil {
				s.note(j, j.reclaim(b))
			}
		}
	case event.KindChunksReleased:
		if b, ok := decode[event.ChunksReleased](s, e); ok {
			if j := s.ready(b.Job, e); j != nil {
				s.note(j, j.release(b))
			}
		}
	case event.KindChunkAccepted:
		if b, ok := decode[event.ChunkAccepted](s, e); ok {
			if j := s.ready(b.Job, e); j != nil {
				s.note(j, j.take(keyOf(e), b))
			}
		}
	case event.KindChunksAccepted:
		if b, ok := decode[event.ChunksAccepted](s, e); ok {
			if j := s.ready(b.Job, e); j != nil {
				s.note(j, j.takeAll(keyOf(e), b))
			}
		}
	}
}

// ready returns a job whose submission is known; otherwise it parks e.
func (s *State) ready(id job.ID, e *event.Event) *foldedJob {
	if id == "" || len(id) > maxJobIDLen {
		s.malformed++
		return nil
	}
	if s.buried(id, e) {
		return nil
	}
	j := s.job(id)
	if j.known {
		j.top = j.top.later(keyOf(e))
	}
	if !j.known {
		p := *e
		p.Prev, p.Hash = cluster.Hash{}, cluster.Hash{}
		j.parked = append(j.parked, p)
		return nil
	}
	return j
}

func (s *State) note(j *foldedJob, ok bool) {
	if !ok {
		s.malformed++
		j.bad++
	}
}

// has reports whether a chunk and an attempt can be of this job.
func (j *foldedJob) has(chunk, attempt int) bool {
	return chunk >= 0 && chunk < j.total && attempt >= 1 && attempt <= math.MaxInt32
}

// change runs f on a chunk and keeps the counts true. The chunks of a sealed
// job are gone.
func (j *foldedJob) change(i int, f func(c *chunk)) {
	if j.sealed != nil {
		return
	}
	c := &j.chunks[i]
	j.count[c.state()]--
	f(c)
	j.count[c.state()]++
}

func (j *foldedJob) toStop(at key, b event.JobStopped) bool {
	if !b.Cause.Known() {
		return false
	}
	j.stop.first(at, stop{actor: clip(b.Actor, cluster.MaxReason), reason: clip(b.Reason, cluster.MaxReason), cause: b.Cause})
	return true
}

func (j *foldedJob) finish(at key, b event.JobDone) bool {
	if !b.State.Final() || b.Result != nil && b.Result.Validate(j.spec) != nil {
		return false
	}
	if b.Result != nil {
		j.seal(at, b.Result)
		b.Result = nil
	}
	if j.doneAt.isZero() || at.less(j.doneAt) {
		b.Reason = clip(b.Reason, cluster.MaxReason)
		j.doneAt, j.done = at, b
	}
	return true
}

// seal fixes the result and forgets the chunks, which nothing can change any
// more.
func (j *foldedJob) seal(at key, r *job.Result) {
	if j.sealed != nil && !at.less(j.sealedAt) {
		return
	}
	j.sealed, j.sealedAt = r, at
	j.chunks, j.count, j.iterations, j.micros, j.disputed, j.metrics, j.shares = nil, [chunkStates]int{}, 0, 0, 0, nil, nil
	j.blurred = false
}

// result sums up the chunks.
func (j *foldedJob) result() *job.Result {
	if j.sealed != nil {
		return j.sealed
	}
	r := &job.Result{
		Accepted: j.count[chunkAccepted], Failed: j.count[chunkFailed] + j.count[chunkParked], Disputed: j.disputed,
		Iterations: j.iterations, Micros: j.micros,
	}
	r.Metrics = j.metrics.metrics(j.blurred)
	r.Anomalies = j.anomalies()
	for _, w := range slices.Sorted(maps.Keys(j.shares)) {
		if sh := j.shares[w]; sh.chunks > 0 {
			r.Workers = append(r.Workers, job.WorkShare{Worker: w, Chunks: sh.chunks, Iterations: sh.iterations})
		}
	}
	return r
}

func (j *foldedJob) assign(e *event.Event, b event.ChunksAssigned) bool {
	whole := true
	for _, a := range b.Assignments {
		if !j.has(a.Chunk, a.Number) || !isNode(a.Worker, false) {
			whole = false
			continue
		}
		j.attempts++
		if j.firstTry == 0 || e.HLC < j.firstTry {
			j.firstTry = e.HLC
		}
		j.change(a.Chunk, func(c *chunk) {
			if c.accept != nil {
				return
			}
			t := c.try(a.Number, a.Worker)
			t.assigned = true
			t.term, t.at = max(t.term, e.Term), max(t.at, e.HLC)
		})
	}
	return whole
}

func (j *foldedJob) fail(at key, b event.ChunkFailed) bool {
	if !j.has(b.Chunk, b.Attempt) || !isNode(b.Worker, false) {
		return false
	}
	j.failures++
	j.remember(Failure{
		Chunk: b.Chunk, Attempt: b.Attempt, Worker: b.Worker,
		Reason: clip(b.Reason, cluster.MaxReason), Final: b.Final, At: at.hlc, key: at,
	})
	j.change(b.Chunk, func(c *chunk) {
		if c.accept != nil {
			return
		}
		t := c.try(b.Attempt, b.Worker)
		t.failed = true
		t.final = t.final || b.Final
		t.parked = t.parked || b.Final && b.Parked
	})
	return true
}

// release lets chunks that were given up be tried again.
func (j *foldedJob) release(b event.ChunksReleased) bool {
	whole := true
	next := 0
	for _, s := range b.Chunks {
		if s.First < next || s.Last < s.First || !j.has(s.Last, b.Attempt) {
			whole = false
			continue
		}
		next = s.Last + 1
		for i := s.First; i <= s.Last; i++ {
			j.change(i, func(c *chunk) {
				if c.accept == nil {
					c.released = max(c.released, b.Attempt)
				}
			})
		}
	}
	return whole
}

// remember keeps the latest failures.
func (j *foldedJob) remember(f Failure) {
	i, _ := slices.BinarySearchFunc(j.recent, f, func(a, b Failure) int {
		if a.key.less(b.key) {
			return -1
		}
		return 1
	})
	j.recent = slices.Insert(j.recent, i, f)
	if len(j.recent) > MaxFailures {
		j.recent = slices.Delete(j.recent, 0, 1)
	}
}

func (j *foldedJob) reclaim(b event.ChunkReclaimed) bool {
	if !j.has(b.Chunk, b.Attempt) || !isNode(b.Worker, false) {
		return false
	}
	j.reclaims++
	j.change(b.Chunk, func(c *chunk) {
		if c.accept == nil {
			c.try(b.Attempt, b.Worker).reclaimed = true
		}
	})
	return true
}

func (j *foldedJob) takeAll(at key, b event.ChunksAccepted) bool {
	whole := true
	for _, a := range b.Accepts {
		whole = j.take(at, event.ChunkAccepted{
			Chunk: a.Chunk, Attempt: a.Attempt, Worker: a.Worker, Result: a.Result, Seconds: a.Seconds, Settles: a.Settles,
		}) && whole
	}
	return whole
}

// skipped lists the chunks without a result.
func (j *foldedJob) skipped() (spans []job.Span) {
	for i := range j.chunks {
		switch n := len(spans); {
		case j.chunks[i].accept != nil:
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

// take folds an accepted result; the first one counts.
func (j *foldedJob) take(at key, b event.ChunkAccepted) bool {
	if !j.has(b.Chunk, b.Attempt) || !isNode(b.Worker, false) {
		return false
	}
	_, n := j.spec.ChunkRange(b.Chunk)
	if b.Result.Validate(n) != nil {
		return false
	}
	a := &accept{at: at, attempt: b.Attempt, worker: b.Worker, micros: micros(b.Seconds), settles: b.Settles}
	j.lastDone = max(j.lastDone, at.hlc)
	j.change(b.Chunk, func(c *chunk) {
		c.tries, c.released = nil, 0
		old := c.accept
		same := old == nil || j.metrics.holds(b.Chunk, b.Result.Metrics)
		j.blurred = j.blurred || !same
		settled := a.settles || old != nil && old.settles
		switch {
		case c.disputed && settled:
			c.disputed = false
			j.disputed--
		case !same && !c.disputed && !settled:
			c.disputed = true
			j.disputed++
		}
		if old != nil && !a.before(old) {
			return
		}
		if old != nil {
			j.credit(old, n, -1)
		}
		c.accept = a
		j.credit(a, n, 1)
		j.metrics.store(j.total, b.Chunk, b.Result.Metrics)
	})
	return true
}

func (j *foldedJob) credit(a *accept, iterations uint64, sign int) {
	sh, ok := j.shares[a.worker]
	if !ok {
		sh = &share{}
		j.shares[a.worker] = sh
	}
	sh.chunks += sign
	j.micros += int64(sign) * a.micros
	if sign > 0 {
		sh.iterations += iterations
		j.iterations += iterations
		return
	}
	sh.iterations -= iterations
	j.iterations -= iterations
}

// maxMicros bounds the run time of one attempt.
const maxMicros = 1e12

// micros turns a worker's own measure into integer microseconds, which add up
// to the same sum in any order.
func micros(seconds float64) int64 {
	if !(seconds > 0) {
		return 0
	}
	return int64(math.Round(min(seconds, maxMicros/1e6) * 1e6))
}
