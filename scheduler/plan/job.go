package plan

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

type chunkState uint8

const (
	pending chunkState = iota
	assigned
	accepted
	givenUp
)

type chunk struct {
	state     chunkState
	queued    bool // stands in job.retry
	attempts  int32
	failed    int16
	lost      int16
	notBefore time.Duration
	tries     []*try           // open attempts
	avoid     []cluster.NodeID // where it failed or was lost
}

// try is one open attempt. It stands in its chunk and in its worker.
type try struct {
	job        *job
	chunk      int
	attempt    int
	worker     *worker
	iterations uint64
	deadline   time.Duration
	limit      time.Duration // deadline counted from the assignment
	lost       bool          // the worker says that it does not have it
	gone       bool          // ended
}

func (t *try) ref() Ref { return Ref{Job: t.job.id, Chunk: t.chunk, Attempt: t.attempt} }

type job struct {
	id     cluster.JobID
	spec   cluster.JobSpec
	chunks []chunk
	fresh  int     // chunks from here on may be untried
	retry  []int32 // pending chunks that were tried, in order; some not pending any more

	assigned, accepted, givenUp int

	failures     int
	failedChunks int
	failedOn     map[cluster.NodeID]bool
	reason       string // of the latest failure
	metrics      map[string]bool
	times        [128]uint32 // run times, 4 buckets per octave of milliseconds
	timed        uint32

	starving time.Duration // since when, 0: not
	told     bool          // that it starves
}

func (p *Plan) addJob(e JobAdded, now time.Duration) {
	if p.byID[e.Job] != nil {
		return
	}
	j := &job{
		id: e.Job, spec: e.Spec, chunks: make([]chunk, e.Spec.Chunks()),
		failedOn: make(map[cluster.NodeID]bool), metrics: make(map[string]bool),
	}
	p.jobs = append(p.jobs, j)
	p.byID[j.id] = j
	if e.Restore == nil {
		return
	}
	p.restore(j, e.Restore, now)
	if e.Restore.Stopped {
		p.finish(j, cluster.JobCancelled, "stopped by "+e.Restore.Actor)
		return
	}
	p.conclude(j)
}

func (p *Plan) restore(j *job, r *Restore, now time.Duration) {
	j.failures, j.reason = r.Failures, r.Reason
	for _, m := range r.Metrics {
		j.metrics[m] = true
	}
	j.givenUp = r.GivenUp
	j.accepted = len(j.chunks) - len(r.Open) - r.GivenUp
	for i := range j.chunks {
		j.chunks[i].state = accepted // or given up, which is the same from here
	}
	for _, o := range r.Open {
		c := &j.chunks[o.Chunk]
		c.state = pending
		c.attempts, c.failed, c.lost = int32(o.Attempts), int16(o.Failed), int16(o.Lost)
		c.avoid = slices.Clone(o.FailedOn)
		if o.Failed > 0 {
			j.failedChunks++
			for _, n := range o.FailedOn {
				j.failedOn[n] = true
			}
		}
		for _, t := range o.Tries {
			p.open(j, o.Chunk, t.Attempt, p.worker(t.Worker, now), now)
		}
		if c.state == pending && c.attempts > 0 {
			j.requeue(o.Chunk)
		}
	}
}

func (p *Plan) stopJob(e JobStopped) {
	if j := p.byID[e.Job]; j != nil {
		p.finish(j, cluster.JobCancelled, "stopped by "+e.Actor)
	}
}

// open starts an attempt.
func (p *Plan) open(j *job, index, attempt int, w *worker, now time.Duration) {
	c := &j.chunks[index]
	_, n := j.spec.ChunkRange(index)
	limit := j.limit(p.cfg) * time.Duration(len(w.tries)/max(1, w.slots)+1)
	t := &try{job: j, chunk: index, attempt: attempt, worker: w, iterations: n, limit: limit, deadline: now + limit}
	if c.state == pending {
		c.state = assigned
		j.assigned++
	}
	c.attempts = max(c.attempts, int32(attempt))
	c.tries = append(c.tries, t)
	w.tries = append(w.tries, t)
	w.backlog += n
	p.expiry = min(p.expiry, t.deadline)
}

// close ends an attempt; its chunk keeps its state.
func (p *Plan) close(t *try) {
	t.gone = true
	same := func(o *try) bool { return o == t }
	c := &t.job.chunks[t.chunk]
	c.tries = slices.DeleteFunc(c.tries, same)
	t.worker.tries = slices.DeleteFunc(t.worker.tries, same)
	t.worker.backlog -= t.iterations
}

// limit is the longest time for one attempt that need not queue.
func (j *job) limit(cfg Config) time.Duration {
	return max(cfg.MinDeadline, 5*j.p99(), j.spec.Timeout()+cfg.Overrun)
}

func (j *job) observe(seconds float64) {
	i := 0
	if ms := seconds * 1000; ms > 1 {
		i = min(int(4*math.Log2(ms)), len(j.times)-1)
	}
	j.times[i]++
	j.timed++
}

// p99 is the upper end of the bucket that holds the 99th percentile.
func (j *job) p99() time.Duration {
	if j.timed == 0 {
		return 0
	}
	above := j.timed / 100
	for i := len(j.times) - 1; i >= 0; i-- {
		if j.times[i] > above {
			ms := math.Exp2(float64(i+1) / 4)
			return time.Duration(min(ms, cluster.MaxChunkTimeout.Seconds()*1000) * float64(time.Millisecond))
		}
		above -= j.times[i]
	}
	return 0
}

// requeue puts a chunk that was tried before into line.
func (j *job) requeue(index int) {
	if c := &j.chunks[index]; !c.queued {
		c.queued = true
		j.retry = append(j.retry, int32(index))
	}
}

// back makes a chunk without open attempts pending again.
func (j *job) back(index int, notBefore time.Duration) {
	c := &j.chunks[index]
	if len(c.tries) > 0 || c.state != assigned {
		return
	}
	c.state, c.notBefore = pending, notBefore
	j.assigned--
	j.requeue(index)
}

// reclaim takes an attempt back.
func (p *Plan) reclaim(t *try, reason string, now time.Duration) {
	j, c := t.job, &t.job.chunks[t.chunk]
	p.close(t)
	c.lost++
	c.dodge(t.worker.node)
	if c.lost >= MaxLost {
		reason = fmt.Sprintf("%d attempts were lost with their workers, the last: %s", c.lost, reason)
		p.emit(Fail{Ref: t.ref(), Worker: t.worker.node, Reason: reason, Final: true})
		p.giveUp(j, t.chunk, reason)
		return
	}
	p.emit(Reclaim{Ref: t.ref(), Worker: t.worker.node, Reason: reason})
	j.back(t.chunk, now)
}

// fail ends an attempt and counts it.
func (p *Plan) fail(t *try, reason string, now time.Duration) {
	j, c := t.job, &t.job.chunks[t.chunk]
	if len(reason) > cluster.MaxReason {
		reason = reason[:cluster.MaxReason]
	}
	p.close(t)
	c.dodge(t.worker.node)
	if c.failed == 0 {
		j.failedChunks++
	}
	c.failed++
	j.failures++
	j.failedOn[t.worker.node] = true
	final := int(c.failed) >= j.spec.Attempts
	p.emit(Fail{Ref: t.ref(), Worker: t.worker.node, Reason: reason, Final: final})
	if final {
		p.giveUp(j, t.chunk, reason)
		return
	}
	j.reason = fmt.Sprintf("chunk %d: %s", t.chunk, reason)
	if p.hopeless(j) {
		p.finish(j, cluster.JobFailed, fmt.Sprintf("the first %d attempts failed, the last at %s", j.failures, j.reason))
		return
	}
	j.back(t.chunk, now+min(MaxBackoff, firstBackoff<<min(c.failed-1, 10)))
}

// hopeless reports that a job has shown that it cannot succeed.
func (p *Plan) hopeless(j *job) bool {
	if j.accepted > 0 || j.failures < 2*j.spec.Attempts || j.failedChunks < 2 {
		return false
	}
	if len(j.failedOn) > 1 {
		return true
	}
	fit := 0
	for _, w := range p.workers {
		if w.fit(j) {
			fit++
		}
	}
	return fit < 2
}

// dodge remembers a worker as a bad place for the chunk.
func (c *chunk) dodge(n cluster.NodeID) {
	if !slices.Contains(c.avoid, n) {
		c.avoid = append(c.avoid, n)
	}
}

// giveUp closes a chunk without result; other attempts at it are cancelled.
func (p *Plan) giveUp(j *job, index int, reason string) {
	p.leave(j, index, givenUp)
	j.givenUp++
	j.reason = fmt.Sprintf("chunk %d: %s", index, reason)
	p.conclude(j)
}

// leave closes a chunk and cancels what still runs of it. What a lost worker
// had of it, while another's copy was accepted, counts as taken back.
func (p *Plan) leave(j *job, index int, to chunkState) {
	c := &j.chunks[index]
	if c.state == assigned {
		j.assigned--
	}
	c.state = to
	for _, t := range slices.Clone(c.tries) {
		p.close(t)
		switch {
		case t.worker.connected:
			p.cancel(t.worker, t.ref())
		case to == accepted:
			p.emit(Reclaim{Ref: t.ref(), Worker: t.worker.node, Reason: "worker is lost, and a copy was accepted"})
		}
	}
	c.tries, c.avoid = nil, nil
}

// conclude ends a job whose chunks are all closed.
func (p *Plan) conclude(j *job) {
	if j.accepted+j.givenUp < len(j.chunks) {
		return
	}
	switch {
	case j.givenUp == 0:
		p.finish(j, cluster.JobCompleted, "")
	case j.accepted == 0:
		p.finish(j, cluster.JobFailed, fmt.Sprintf("all %d chunks given up, the last at %s", j.givenUp, j.reason))
	default:
		p.finish(j, cluster.JobPartial, fmt.Sprintf("%d of %d chunks given up, the last at %s", j.givenUp, len(j.chunks), j.reason))
	}
}

// finish takes a job out of the plan.
func (p *Plan) finish(j *job, state cluster.JobState, reason string) {
	if len(reason) > cluster.MaxReason {
		reason = reason[:cluster.MaxReason]
	}
	p.emit(Finish{Job: j.id, State: state, Reason: reason})
	for _, w := range p.workers {
		had := false
		for _, t := range slices.Clone(w.tries) {
			if t.job == j {
				p.close(t)
				had = true
			}
		}
		if had && w.connected {
			p.emit(Cancel{Worker: w.node, Job: j.id})
		}
	}
	i := slices.Index(p.jobs, j)
	p.jobs = slices.Delete(p.jobs, i, i+1)
	if p.turn > i {
		p.turn--
	}
	delete(p.byID, j.id)
}
