package plan

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/results"
	"github.com/skein-project/skein/scheduler/plan/step"
)

type chunk struct {
	state    chunkState
	queued   bool // stands in job.retry
	disputed bool // it has a result already, beside others that differ
	attempts int32
	failed   int16
	lost     int16
	tries    []*try           // open attempts
	avoid    []cluster.NodeID // where it failed or was lost
	check    *check           // results that wait for a second opinion
	wait     *timer           // it may not be tried again before
}

// at returns the chunk's open attempt at w.
func (c *chunk) at(w *worker) *try {
	for _, t := range c.tries {
		if t.worker == w {
			return t
		}
	}
	return nil
}

// try is one open attempt. It stands in its chunk, in its job and in its
// worker.
type try struct {
	job        *openJob
	chunk      int
	attempt    int
	worker     *worker
	iterations uint64
	load       time.Duration // estimated time of it in one slot
	started    time.Duration
	limit      time.Duration // its deadline counted from the assignment
	timer      timer         // the deadline
	inJob      int           // index in job.tries
	inWorker   int           // index in worker.tries
	done       uint64        // iterations that it reported
	moved      time.Duration // when done rose last
	granted    int           // extensions since
	extended   time.Duration // by which its deadline was put off in all
	misses     int           // times in a row that its worker did not know it
	lost       bool          // the worker says that it does not have it
	runs       bool          // the worker said that it began
	copied     bool          // it copies another attempt, near the end of the job
	gone       bool          // ended
}

func (t *try) ref() job.Attempt {
	return job.Attempt{Job: t.job.id, Chunk: t.chunk, Number: t.attempt, Worker: t.worker.node}
}

type openJob struct {
	id      job.ID
	spec    job.Spec
	class   *class
	kind    *kind
	account *account
	state   jobState
	added   time.Duration // when it was submitted
	idle    time.Duration // when it got on last
	timer   timer         // of its end

	chunks  []chunk
	count   [chunkStates]int // chunks by state
	fresh   int              // chunks from here on may be untried
	retry   []int32          // pending chunks that were tried, in order; some not pending any more
	waiting int              // chunks that may not be tried again yet
	tries   []*try

	turn  time.Duration // its place in the line of its owner, see account
	order uint64
	pos   int

	failures     int
	failedChunks int
	failedOn     map[cluster.NodeID]bool
	reason       string // of the latest failure
	metrics      *results.Pool
	times        results.Times
	copies       int // open attempts that were made near the end

	waits    bool          // for an operator: all that is open is given up
	starving time.Duration // since when, 0: not
	told     bool          // that it starves
}

func (p *Plan) addJob(e step.JobAdded, now time.Duration) {
	if p.byID[e.Job] != nil {
		return
	}
	j := &openJob{
		id: e.Job, spec: e.Spec, chunks: make([]chunk, e.Spec.Chunks()), added: now - e.Age,
		class: p.classOf(e.Spec, e.Owner), kind: p.kindOf(e.Spec), account: p.accountOf(e.Owner),
		failedOn: make(map[cluster.NodeID]bool), metrics: results.NewPool(),
	}
	j.class.jobs++
	j.kind.jobs++
	j.idle = now
	j.timer = timer{job: j, chunk: -1}
	j.count[pending] = len(j.chunks)
	p.jobs = append(p.jobs, j)
	p.byID[j.id] = j
	if e.Restore != nil {
		p.restore(j, e.Restore, now)
		if e.Restore.Stopped {
			p.finish(j, cancelled, "stopped by "+e.Restore.Actor)
			return
		}
		if p.conclude(j) {
			return
		}
	}
	p.armJob(j, now)
	p.line(j)
}

func (p *Plan) restore(j *openJob, r *step.Restore, now time.Duration) {
	j.failures, j.reason = r.Failures, r.Reason
	j.metrics = results.NewPool(r.Metrics...)
	open := make([]bool, len(j.chunks))
	for _, o := range r.Open {
		open[o.Chunk] = true
	}
	for i := range j.chunks {
		if open[i] {
			continue
		}
		if j.state == queued {
			j.become(running)
		}
		j.move(i, accepted)
	}
	for _, o := range r.Open {
		c := &j.chunks[o.Chunk]
		c.attempts, c.failed, c.lost = int32(o.Attempts), int16(o.Failed), int16(o.Lost)
		c.avoid = slices.Clone(o.FailedOn)
		if o.Attempts > 0 && j.state == queued {
			j.become(running)
		}
		if o.GivenUp {
			c.avoid = nil
			j.move(o.Chunk, givenUp)
			continue
		}
		if o.Disputed {
			c.disputed, c.check = true, &check{}
		}
		if o.Failed > 0 {
			j.failedChunks++
			for _, n := range o.FailedOn {
				j.failedOn[n] = true
			}
		}
		for _, t := range o.Tries {
			p.open(j, o.Chunk, t.Number, p.worker(t.Worker, now), now)
		}
		if c.state == pending && c.attempts > 0 {
			j.requeue(o.Chunk)
		}
	}
}

// release lets the chunks of a job that were given up be tried again, as if for
// the first time, but with other attempt numbers than they had.
func (p *Plan) release(e step.JobReleased, now time.Duration) {
	j := p.byID[e.Job]
	if j == nil || j.count[givenUp] == 0 {
		return
	}
	out := step.Released{Job: j.id, Actor: e.Actor}
	for i := range j.chunks {
		c := &j.chunks[i]
		if c.state != givenUp {
			continue
		}
		out.Attempt = max(out.Attempt, int(c.attempts), 1)
		if n := len(out.Chunks); n > 0 && out.Chunks[n-1].Last == i-1 {
			out.Chunks[n-1].Last = i
		} else {
			out.Chunks = append(out.Chunks, job.Span{First: i, Last: i})
		}
	}
	for _, s := range out.Chunks {
		for i := s.First; i <= s.Last; i++ {
			c := &j.chunks[i]
			c.attempts, c.failed, c.lost, c.check = int32(out.Attempt), 0, 0, nil
			j.move(i, pending)
			j.requeue(i)
		}
	}
	j.waits, j.failures, j.failedChunks, j.idle = false, 0, 0, now
	clear(j.failedOn)
	p.emit(out)
	p.line(j)
}

func (p *Plan) stopJob(e step.JobStopped) {
	if j := p.byID[e.Job]; j != nil {
		p.finish(j, cancelled, "stopped by "+e.Actor)
	}
}

// open starts an attempt.
func (p *Plan) open(j *openJob, index, attempt int, w *worker, now time.Duration) *try {
	c := &j.chunks[index]
	_, n := j.spec.ChunkRange(index)
	limit := j.limit(p.cfg) * time.Duration(len(w.tries)/max(1, w.slots)+1)
	t := &try{
		job: j, chunk: index, attempt: attempt, worker: w, iterations: n, load: w.estimate(j, n),
		started: now, moved: now, limit: limit, inJob: len(j.tries), inWorker: len(w.tries),
	}
	t.timer.try = t
	if c.state == pending {
		j.move(index, assigned)
	}
	if j.state == queued {
		j.become(running)
	}
	if len(w.tries) == 0 {
		w.output = now
	}
	c.attempts = max(c.attempts, int32(attempt))
	c.tries = append(c.tries, t)
	j.tries = append(j.tries, t)
	w.tries = append(w.tries, t)
	w.backlog += n
	w.load += t.load
	w.unit = t.load
	if len(j.tries) == 1 {
		j.idle = now
		if j.timer.pos == 0 {
			p.armJob(j, now)
		}
	}
	p.set(&t.timer, now+limit)
	p.place(w, now)
	return t
}

// close ends an attempt; its chunk keeps its state.
func (p *Plan) close(t *try, now time.Duration) {
	t.gone = true
	c, j, w := &t.job.chunks[t.chunk], t.job, t.worker
	c.tries = slices.DeleteFunc(c.tries, func(o *try) bool { return o == t })
	last := j.tries[len(j.tries)-1]
	j.tries[t.inJob], last.inJob = last, t.inJob
	j.tries = j.tries[:len(j.tries)-1]
	last = w.tries[len(w.tries)-1]
	w.tries[t.inWorker], last.inWorker = last, t.inWorker
	w.tries[len(w.tries)-1] = nil
	w.tries = w.tries[:len(w.tries)-1]
	w.backlog -= t.iterations
	w.load -= t.load
	if t.copied {
		j.copies--
		p.copies--
	}
	p.timers.Remove(&t.timer)
	p.place(w, now)
}

// ready reports that the job has a chunk to give out now.
func (j *openJob) ready() bool {
	for len(j.retry) > 0 {
		i := j.retry[0]
		if j.chunks[i].state == pending {
			return true
		}
		j.chunks[i].queued = false
		j.retry = j.retry[1:]
	}
	j.retry = nil
	for j.fresh < len(j.chunks) {
		if c := &j.chunks[j.fresh]; c.state == pending && c.attempts == 0 {
			return true
		}
		j.fresh++
	}
	return false
}

// requeue puts a chunk that was tried before into line.
func (j *openJob) requeue(index int) {
	if c := &j.chunks[index]; !c.queued && c.state == pending {
		c.queued = true
		j.retry = append(j.retry, int32(index))
	}
}

// back makes a chunk without open attempts pending again, for good or for
// later.
func (p *Plan) back(j *openJob, index int, notBefore, now time.Duration) {
	c := &j.chunks[index]
	if len(c.tries) > 0 || c.state != assigned {
		return
	}
	j.move(index, pending)
	if notBefore > now {
		if c.wait == nil {
			c.wait = &timer{job: j, chunk: index}
		}
		if c.wait.pos == 0 {
			j.waiting++
		}
		p.set(c.wait, notBefore)
		return
	}
	j.requeue(index)
	p.line(j)
}

// reclaim takes an attempt back.
func (p *Plan) reclaim(t *try, reason string, now time.Duration) {
	j, c := t.job, &t.job.chunks[t.chunk]
	p.close(t, now)
	c.lost++
	c.dodge(t.worker.node)
	if int(c.lost) >= j.spec.LossBudget() {
		reason = fmt.Sprintf("%d attempts were lost with their workers, the last: %s", c.lost, reason)
		p.emit(step.Fail{Attempt: t.ref(), Reason: clip(reason), Class: job.FailedInfra, Final: true, Parked: true})
		p.giveUp(j, t.chunk, reason, now)
		return
	}
	p.emit(step.Reclaim{Attempt: t.ref(), Reason: clip(reason)})
	p.back(j, t.chunk, now, now)
}

// fail ends an attempt and counts it.
func (p *Plan) fail(t *try, reason string, now time.Duration) {
	j, c := t.job, &t.job.chunks[t.chunk]
	reason = clip(reason)
	p.close(t, now)
	p.failed(t.worker, j, reason, now)
	if !slices.Contains(c.avoid, t.worker.node) {
		c.dodge(t.worker.node)
	}
	if c.failed == 0 {
		j.failedChunks++
	}
	c.failed++
	j.failures++
	j.failedOn[t.worker.node] = true
	final := int(c.failed) >= j.spec.Attempts
	parked := false
	if hosts := len(c.avoid); !final && int(c.failed) >= maxHosts && hosts >= maxHosts {
		final, parked = true, true
		reason = clip(fmt.Sprintf("parked: it failed on %d hosts, the last: %s", hosts, reason))
	}
	p.emit(step.Fail{Attempt: t.ref(), Reason: reason, Final: final, Parked: parked})
	if final {
		p.giveUp(j, t.chunk, reason, now)
		return
	}
	j.reason = fmt.Sprintf("chunk %d: %s", t.chunk, reason)
	if p.hopeless(j) {
		p.finish(j, failed, fmt.Sprintf("the first %d attempts failed, the last at %s", j.failures, j.reason))
		return
	}
	p.back(j, t.chunk, now+min(MaxBackoff, firstBackoff<<min(c.failed-1, 10)), now)
}

// hopeless reports that a job has shown that it cannot succeed.
func (p *Plan) hopeless(j *openJob) bool {
	if j.count[accepted] > 0 || j.failures < 2*j.spec.Attempts || j.failedChunks < 2 {
		return false
	}
	return len(j.failedOn) > 1 || j.class.fit < 2
}

// dodge remembers a worker as a bad place for the chunk.
func (c *chunk) dodge(n cluster.NodeID) {
	if !slices.Contains(c.avoid, n) {
		c.avoid = append(c.avoid, n)
	}
}

// giveUp closes a chunk without result; other attempts at it are cancelled. One
// whose results are disputed keeps the first of them.
func (p *Plan) giveUp(j *openJob, index int, reason string, now time.Duration) {
	if j.chunks[index].disputed {
		p.leave(j, index, accepted, now)
		p.conclude(j)
		return
	}
	p.leave(j, index, givenUp, now)
	j.reason = fmt.Sprintf("chunk %d: %s", index, reason)
	if j.spec.Partial() == job.PartialFail && j.count[givenUp]+j.count[accepted] < len(j.chunks) {
		p.finish(j, failed, "given up, as the job wants no part of a result: "+j.reason)
		return
	}
	p.conclude(j)
}

// leave closes a chunk and cancels what still runs of it. What a lost worker
// had of it, while another's copy was accepted, counts as taken back.
func (p *Plan) leave(j *openJob, index int, to chunkState, now time.Duration) {
	c := &j.chunks[index]
	j.move(index, to)
	for _, t := range slices.Clone(c.tries) {
		p.close(t, now)
		switch {
		case t.worker.connected:
			p.cancel(t.worker, t.ref(), "the chunk is "+to.String())
		case to == accepted:
			p.emit(step.Reclaim{Attempt: t.ref(), Reason: "worker is lost, and a copy was accepted"})
		}
	}
	if c.wait != nil && c.wait.pos != 0 {
		p.timers.Remove(c.wait)
		j.waiting--
	}
	c.tries, c.avoid, c.check, c.wait, c.disputed = nil, nil, nil, nil, false
}

// conclude ends a job whose chunks are all closed.
func (p *Plan) conclude(j *openJob) bool {
	if j.state > running || j.count[accepted]+j.count[givenUp] < len(j.chunks) {
		return false
	}
	switch {
	case j.count[givenUp] == 0:
		p.finish(j, completed, "")
	case j.spec.Partial() == job.PartialWait:
		if !j.waits {
			j.waits = true
			p.emit(step.Waiting{Job: j.id, Reason: clip(fmt.Sprintf("%s given up, an operator decides; the last at %s", j.share(givenUp), j.reason))})
		}
		return false
	case j.count[accepted] == 0 || j.spec.Partial() == job.PartialFail:
		p.finish(j, failed, fmt.Sprintf("%s given up, the last at %s", j.share(givenUp), j.reason))
	default:
		p.finish(j, partial, fmt.Sprintf("%d of %d chunks given up, the last at %s", j.count[givenUp], len(j.chunks), j.reason))
	}
	return true
}

// share says how many of the job's chunks are in a state.
func (j *openJob) share(s chunkState) string {
	if j.count[s] == len(j.chunks) {
		return fmt.Sprintf("all %d chunks", len(j.chunks))
	}
	return fmt.Sprintf("%d of %d chunks", j.count[s], len(j.chunks))
}

// finish takes a job out of the plan.
func (p *Plan) finish(j *openJob, to jobState, reason string) {
	j.become(to)
	p.emit(step.Finish{Job: j.id, State: job.State(to.String()), Reason: clip(reason)})
	p.unline(j)
	p.timers.Remove(&j.timer)
	had := make(map[*worker]bool)
	for i := range j.chunks {
		c := &j.chunks[i]
		if c.wait != nil {
			p.timers.Remove(c.wait)
		}
		if c.check != nil {
			for _, o := range c.check.seen {
				if w := p.byNode[o.node]; w != nil {
					had[w] = true
				}
			}
		}
	}
	for _, t := range slices.Clone(j.tries) {
		p.close(t, p.now)
		had[t.worker] = true
	}
	for _, w := range slices.SortedFunc(maps.Keys(had), byName) {
		if w.connected {
			p.emit(step.Cancel{Worker: w.node, Job: j.id, Reason: "the job is " + to.String()})
		}
	}
	p.jobs = slices.DeleteFunc(p.jobs, func(o *openJob) bool { return o == j })
	delete(p.byID, j.id)
	j.kind.jobs--
	p.drop(j.class)
	p.settleAccount(j.account)
}

func clip(reason string) string {
	if len(reason) > cluster.MaxReason {
		reason = reason[:cluster.MaxReason]
	}
	return reason
}
