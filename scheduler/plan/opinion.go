package plan

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/results"
	"github.com/skein-project/skein/scheduler/plan/step"
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
)

// trust is how far a host's results are believed without another's.
type trust struct {
	stranger bool // not run by a member of the cluster
	agreed   int  // confirmed results since the last that was not
	wrong    int  // results that a majority contradicted
}

// trusted reports that the host's results are believed without another's, unless
// the job asks for checks.
func (t *trust) trusted() bool { return !t.stranger || t.agreed >= trustAfter }

// contradict takes in that other hosts agree on another result.
func (t *trust) contradict() {
	t.agreed = 0
	t.wrong++
}

// check gathers results of one chunk by different hosts.
type check struct{ seen []opinion }

// opinion is a valid result that is not accepted yet. Its worker keeps it.
type opinion struct {
	node    cluster.NodeID
	attempt int
	result  *job.ChunkResult
	seconds float64
}

// knows reports that w has sent its result already. A nil check knows nobody.
func (c *check) knows(w *worker) bool {
	return c != nil && slices.ContainsFunc(c.seen, func(o opinion) bool { return o.node == w.node })
}

// mustCheck reports that a result of w needs another host's. Members of the
// cluster are believed unless the job asks for checks; strangers never are at
// once.
func (j *openJob) mustCheck(w *worker, index int, odd bool) bool {
	switch policy := j.spec.Replication.Policy; {
	case policy == job.CheckAll:
		return true
	case policy != job.CheckAdaptive && !w.stranger:
		return false
	case odd, w.trust.agreed < trustAfter:
		return true
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%s/%d", j.id, index)
	return h.Sum64()%sampleOneIn == 0
}

// weigh adds a result to those of other hosts. When enough agree they decide, and
// the hosts of the others lose their trust.
func (in *intake) weigh(j *openJob, index int, o opinion, now time.Duration) {
	c := &j.chunks[index]
	if c.check == nil {
		c.check = &check{}
	}
	if i := slices.IndexFunc(c.check.seen, func(s opinion) bool { return s.node == o.node }); i >= 0 {
		in.out.emit(step.Settled{Attempt: job.Attempt{Job: j.id, Chunk: index, Number: o.attempt}.At(o.node)}) // it said so before
		in.work.back(j, index, now, now)
		return
	}
	seen := append(c.check.seen, o)
	c.check.seen = seen
	same := func(s opinion) bool { return results.Agree(*s.result, *o.result, j.spec.Replication.Tolerance) }
	votes := 0
	for _, s := range seen {
		if same(s) {
			votes++
		}
	}
	if votes < j.spec.Replication.Wanted() {
		if c.disputed && in.alone(j, c) {
			// Nobody else can be asked: the first result stands.
			in.settleAs(j, index, 0, now)
			return
		}
		if votes < len(seen) {
			in.out.emit(step.Notice{What: step.NoticeDispute, Worker: o.node, Job: j.id, Reason: fmt.Sprintf("chunk %d: the results of %d hosts are not the same", index, len(seen))})
		}
		if len(seen) >= maxOpinions {
			in.undecided(j, index, seen, now)
			return
		}
		in.work.back(j, index, now, now)
		return
	}
	win := slices.IndexFunc(seen, same)
	for _, s := range seen {
		if w := in.roster.byNode[s.node]; w != nil && same(s) {
			w.trust.agreed++
		} else if w != nil {
			w.contradict()
			in.out.emit(step.Notice{What: step.NoticeDistrust, Worker: s.node, Job: j.id, Reason: fmt.Sprintf("chunk %d: %d other hosts agree on another result", index, votes)})
		}
	}
	in.settleAs(j, index, win, now)
}

// settleAs accepts one of the results of a chunk; the other hosts may forget
// theirs.
func (in *intake) settleAs(j *openJob, index, win int, now time.Duration) {
	seen := j.chunks[index].check.seen
	for i, s := range seen {
		if i != win {
			in.out.emit(step.Settled{Attempt: job.Attempt{Job: j.id, Chunk: index, Number: s.attempt}.At(s.node)})
		}
	}
	in.accept(j, index, seen[win], now)
}

// alone reports that every worker that may run a chunk has sent its result.
func (in *intake) alone(j *openJob, c *chunk) bool {
	left := j.class.Fit()
	for _, o := range c.check.seen {
		if w := in.roster.byNode[o.node]; w != nil && j.class.Has(w.host.Index) {
			left--
		}
	}
	return left <= 0
}

// undecided gives a chunk up on which no two hosts agree.
func (in *intake) undecided(j *openJob, index int, seen []opinion, now time.Duration) {
	reason := fmt.Sprintf("%d hosts computed results of which too few are the same", len(seen))
	for i, s := range seen {
		ref := job.Attempt{Job: j.id, Chunk: index, Number: s.attempt}
		if i == len(seen)-1 {
			in.out.emit(step.Fail{Attempt: ref.At(s.node), Reason: reason, Final: true})
		} else {
			in.out.emit(step.Settled{Attempt: ref.At(s.node)})
		}
	}
	in.work.giveUp(j, index, reason, now)
}
