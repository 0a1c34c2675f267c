package plan

import (
	"fmt"
	"hash/fnv"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Replication of chunks of workers that must be checked.
const (
	// trustAfter is how many confirmed results in a row make a host trusted.
	trustAfter = 10
	// sampleOneIn is how seldom a trusted host's results are checked.
	sampleOneIn = 64
	// maxOpinions is how many different results of a chunk are gathered before
	// it is given up.
	maxOpinions = 7
	// alarmAfter is how many chunks must be known before one can be odd.
	alarmAfter = 8
)

// trust is how far a host's results are believed without another's.
type trust struct {
	agreed int // confirmed results since the last that was not
	wrong  int // results that a majority contradicted
}

// check gathers results of one chunk by different hosts.
type check struct{ seen []opinion }

// opinion is a valid result that is not accepted yet. Its worker keeps it.
type opinion struct {
	node    cluster.NodeID
	attempt int
	result  *cluster.ChunkResult
	seconds float64
}

// knows reports that w has told its result already. A nil check knows nobody.
func (c *check) knows(w *worker) bool {
	return c != nil && slices.ContainsFunc(c.seen, func(o opinion) bool { return o.node == w.node })
}

// mustCheck reports that a result of w needs another host's. Members of the
// cluster are believed unless the job asks for checks; strangers never are at
// once.
func (p *Plan) mustCheck(j *job, w *worker, index int, odd bool) bool {
	switch policy := j.spec.Replication.Policy; {
	case policy == cluster.CheckAll:
		return true
	case policy != cluster.CheckAdaptive && !w.stranger:
		return false
	case odd, w.trust.agreed < trustAfter:
		return true
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%d", j.id, index)
	return h.Sum64()%sampleOneIn == 0
}

// weigh adds a result to those of other hosts. Two that agree decide; of the
// others' hosts nothing is believed any more.
func (p *Plan) weigh(j *job, index int, o opinion, now time.Duration) {
	c := &j.chunks[index]
	if c.check == nil {
		c.check = &check{}
	}
	if i := slices.IndexFunc(c.check.seen, func(s opinion) bool { return s.node == o.node }); i >= 0 {
		p.emit(Settled{Ref: Ref{Job: j.id, Chunk: index, Attempt: o.attempt}, Worker: o.node}) // it said so before
		p.back(j, index, now, now)
		return
	}
	seen := append(c.check.seen, o)
	c.check.seen = seen
	same := func(s opinion) bool { return agree(*s.result, *o.result, j.spec.Replication.Tolerance) }
	votes := 0
	for _, s := range seen {
		if same(s) {
			votes++
		}
	}
	if votes < j.spec.Replication.Wanted() {
		if c.disputed && p.alone(j, c) {
			// Nobody else can be asked: what was told first stands.
			p.settleAs(j, index, 0, now)
			return
		}
		if votes < len(seen) {
			p.emit(Notice{What: NoticeDispute, Worker: o.node, Job: j.id, Reason: fmt.Sprintf("chunk %d: the results of %d hosts are not the same", index, len(seen))})
		}
		if len(seen) >= maxOpinions {
			p.undecided(j, index, seen, now)
			return
		}
		p.back(j, index, now, now)
		return
	}
	win := slices.IndexFunc(seen, same)
	for _, s := range seen {
		if w := p.byNode[s.node]; w != nil && same(s) {
			w.trust.agreed++
		} else if w != nil {
			w.trust = trust{wrong: w.trust.wrong + 1}
			p.emit(Notice{What: NoticeDistrust, Worker: s.node, Job: j.id, Reason: fmt.Sprintf("chunk %d: %d other hosts agree on another result", index, votes)})
		}
	}
	p.settleAs(j, index, win, now)
}

// settleAs accepts one of the results of a chunk; the other hosts may forget
// theirs.
func (p *Plan) settleAs(j *job, index, win int, now time.Duration) {
	seen := j.chunks[index].check.seen
	for i, s := range seen {
		if i != win {
			p.emit(Settled{Ref: Ref{Job: j.id, Chunk: index, Attempt: s.attempt}, Worker: s.node})
		}
	}
	p.accept(j, index, seen[win], now)
}

// alone reports that every worker that may run a chunk has told its result.
func (p *Plan) alone(j *job, c *chunk) bool {
	n := j.class.fit
	for _, o := range c.check.seen {
		if w := p.byNode[o.node]; w != nil && j.class.member.has(w.index) {
			n--
		}
	}
	return n <= 0
}

// undecided gives a chunk up on which no two hosts agree.
func (p *Plan) undecided(j *job, index int, seen []opinion, now time.Duration) {
	reason := fmt.Sprintf("%d hosts computed results of which too few are the same", len(seen))
	for i, s := range seen {
		ref := Ref{Job: j.id, Chunk: index, Attempt: s.attempt}
		if i == len(seen)-1 {
			p.emit(Fail{Ref: ref, Worker: s.node, Reason: reason, Final: true})
		} else {
			p.emit(Settled{Ref: ref, Worker: s.node})
		}
	}
	p.giveUp(j, index, reason, now)
}

// agree reports that two results of one chunk are the same: bit by bit, or
// within the relative tolerance.
func agree(a, b cluster.ChunkResult, tolerance float64) bool {
	if a.Iterations != b.Iterations || len(a.Metrics) != len(b.Metrics) {
		return false
	}
	if tolerance == 0 {
		return reflect.DeepEqual(a, b)
	}
	near := func(x, y, scale float64) bool { return math.Abs(x-y) <= tolerance*scale }
	for name, m := range a.Metrics {
		o, ok := b.Metrics[name]
		if !ok || m.N != o.N {
			return false
		}
		scale := max(math.Abs(m.Min), math.Abs(m.Max), math.Abs(o.Min), math.Abs(o.Max))
		if !near(m.Mean, o.Mean, scale) || !near(m.Min, o.Min, scale) || !near(m.Max, o.Max, scale) || !near(m.M2, o.M2, max(m.M2, o.M2)) {
			return false
		}
	}
	return true
}

// pooled is a running summary of one metric of a job, in the order in which its
// chunks came. It is good enough for alarms and for stopping early; what the job
// computed is the log's to say.
type pooled struct {
	chunks int
	all    cluster.Metric // without sketch
}

// moments is m without its sketch, which nothing here needs.
func moments(m cluster.Metric) cluster.Metric {
	m.Sketch = nil
	return m
}

// pool takes a result in.
func (j *job) pool(r cluster.ChunkResult) {
	for name, m := range r.Metrics {
		o := j.metrics[name]
		if o == nil {
			o = &pooled{}
			j.metrics[name] = o
		}
		o.all = o.all.Merge(moments(m))
		o.chunks++
	}
}

// odd says what is unlikely about a result, or "": see cluster.Metric.Strays.
func (j *job) odd(r cluster.ChunkResult) string {
	which := ""
	for name, m := range r.Metrics { // the first by name, whatever the order
		o := j.metrics[name]
		if o == nil || o.chunks < alarmAfter || which != "" && name > which {
			continue
		}
		if m.Strays(o.all.Merge(moments(m))) {
			which = name
		}
	}
	if which == "" {
		return ""
	}
	return fmt.Sprintf("the mean of metric %q is %g, more than six standard errors from %g", which, r.Metrics[which].Mean, j.metrics[which].all.Mean)
}

// enough says why the job may stop early, or "".
func (j *job) enough() string {
	stop := j.spec.EarlyStop
	if !stop.On() {
		return ""
	}
	o := j.metrics[stop.Metric]
	if o == nil || o.all.N < stop.MinN || o.chunks < 2 || j.count[accepted] == len(j.chunks) || o.all.RelativeError() > stop.RelError {
		return ""
	}
	return fmt.Sprintf("stopped early: the relative error of metric %q is below %g after %s", stop.Metric, stop.RelError, j.share(accepted))
}
