package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/trust"
)

// voice is what the word of w weighs about j. A stranger is believed for the jobs of its
// own owner.
func (j *openJob) voice(w *worker) trust.Voice {
	switch {
	case !w.Stranger:
		return trust.Member
	case w.Established():
		return trust.Established
	case w.host.Owner != "" && w.host.Owner == j.owner:
		return trust.Owned
	}
	return trust.Doubted
}

// mustCheck reports that a result of w needs another host's. Members of the
// cluster are believed unless the job asks for checks; strangers never are at
// once.
func (in *intake) mustCheck(j *openJob, w *worker, index int, odd bool) bool {
	believed := !w.Stranger || w.host.Owner != "" && w.host.Owner == j.owner
	switch policy := j.spec.Replication.Policy; {
	case policy == job.CheckAll:
		return true
	case policy != job.CheckAdaptive && believed:
		return false
	case odd, !w.Established():
		return true
	}
	return in.cfg.Salt.Samples(j.id, index)
}

// rule is how the opinions about a chunk of j settle it.
func (j *openJob) rule() trust.Rule {
	r := j.spec.Replication
	return trust.Rule{Wanted: r.Wanted(), Tolerance: r.Tolerance, Fit: j.class.Fit(eligible.Firm) > 0}
}

// weigh adds a result to those of other hosts. When enough agree they decide, and
// the hosts of the others lose their trust. With alone it decides by itself.
func (in *intake) weigh(j *openJob, index int, o trust.Opinion, alone bool, now time.Duration) {
	c := &j.chunks[index]
	if c.check == nil {
		c.check = &trust.Check{}
	}
	if c.check.Knows(o.Node) {
		in.out.Emit(step.Settled{Attempt: job.Attempt{Job: j.id, Chunk: index, Number: o.Attempt}.At(o.Node)}) // it said so before
		in.work.back(j, index, now, now)
		return
	}
	rule := j.rule()
	c.check.Seen = append(c.check.Seen, o)
	if w := in.roster.byNode[o.Node]; o.Voice == trust.Doubted {
		w.Open++
		in.roster.place(w, now)
	}
	agree := c.check.Equal(o, rule)
	enough, shows := rule.Enough(agree)
	if enough || alone {
		in.settle(j, index, agree, shows, now)
		return
	}
	if c.disputed && in.alone(j, c) {
		in.stand(j, index, now)
		return
	}
	standing := c.check.Standing(rule)
	if len(agree) < len(c.check.Seen) {
		in.out.Emit(step.Notice{What: step.NoticeDispute, Worker: o.Node, Job: j.id, Reason: fmt.Sprintf("chunk %d: the results of %d hosts are not the same", index, len(c.check.Seen))})
		if o.Voice != trust.Member {
			c.kept = true
		}
	}
	if standing >= trust.MaxOpinions && (!c.check.Doubtful() || in.work.left(j, c, eligible.Firm) <= 0) {
		in.undecided(j, index, now)
		return
	}
	in.work.back(j, index, now, now)
}

// settle accepts the first of the results of a chunk that agree; all other hosts may
// forget theirs. If it shows who was right, that is kept in mind.
func (in *intake) settle(j *openJob, index int, agree []trust.Opinion, shows bool, now time.Duration) {
	seen := j.chunks[index].check.Seen
	var liars []*worker
	for _, s := range seen {
		right := slices.ContainsFunc(agree, func(a trust.Opinion) bool { return a.Node == s.Node })
		w := in.roster.byNode[s.Node]
		switch {
		case w == nil || !shows:
		case right && len(agree) > 1:
			w.Confirm()
		case right:
		default:
			w.Contradict()
			in.out.Emit(step.Notice{What: step.NoticeDistrust, Worker: s.Node, Job: j.id, Reason: fmt.Sprintf("chunk %d: others computed another result", index)})
			if w.Distrusted() && w.Wrong == trust.MaxWrong {
				liars = append(liars, w)
			}
		}
		if right && w != nil && w.Stranger && s.Seconds > 0 {
			w.pace.MeasureApart(j.kind, s.Result.Iterations, s.Seconds)
			w.pace.Succeed(j.kind)
		}
		if w != nil {
			in.roster.learn(w)
			in.roster.review(w, now)
		}
		if s.Node != agree[0].Node {
			in.out.Emit(step.Settled{Attempt: job.Attempt{Job: j.id, Chunk: index, Number: s.Attempt}.At(s.Node)})
		}
	}
	in.accept(j, index, agree[0], now)
	for _, w := range liars {
		reason := fmt.Sprintf("distrusted: %d of its results were wrong", w.Wrong)
		in.work.reclaimAll(w, reason, true, now)
		in.out.Emit(step.Offence{Worker: w.node, Reason: reason})
	}
}

// stand ends the dispute about a chunk when nobody else can be asked: the first result
// stands, or if only strangers sent one, what was accepted before.
func (in *intake) stand(j *openJob, index int, now time.Duration) {
	seen := j.chunks[index].check.Seen
	if i := slices.IndexFunc(seen, func(o trust.Opinion) bool { return o.Voice == trust.Member }); i >= 0 {
		in.settle(j, index, seen[i:i+1], false, now)
		return
	}
	for _, s := range seen {
		in.out.Emit(step.Settled{Attempt: job.Attempt{Job: j.id, Chunk: index, Number: s.Attempt}.At(s.Node)})
	}
	in.work.giveUp(j, index, "only strangers were asked", now)
}

// alone reports that every worker that may be asked about a chunk has sent its result.
func (in *intake) alone(j *openJob, c *chunk) bool {
	return in.work.left(j, c, in.work.audience(j, c)) <= 0
}

// left is how many of an audience may be asked about a chunk and have not spoken.
func (k *work) left(j *openJob, c *chunk, a eligible.Audience) int {
	n := j.class.Fit(a)
	if c.check == nil {
		return n
	}
	for _, o := range c.check.Seen {
		if w := k.roster.byNode[o.Node]; w != nil && j.class.Has(w.host.Index) && a.Admits(&w.host) {
			n--
		}
	}
	return n
}

// audience is to whom a chunk may go. One that strangers ended badly, or that is disputed,
// is for members, and one of which only strangers have spoken for those whose word
// counts: as long as there are any.
func (k *work) audience(j *openJob, c *chunk) eligible.Audience {
	if !j.class.Strange() {
		return eligible.All
	}
	if (c.disputed || c.kept || c.strange >= trust.BadEnds) && k.left(j, c, eligible.Own) > 0 {
		return eligible.Own
	}
	if c.check.Doubtful() && k.left(j, c, eligible.Firm) > 0 {
		return eligible.Firm
	}
	return eligible.All
}

// undecided gives a chunk up on which no two hosts agree.
func (in *intake) undecided(j *openJob, index int, now time.Duration) {
	seen := j.chunks[index].check.Seen
	reason := fmt.Sprintf("%d hosts computed results of which too few are the same", len(seen))
	for i, s := range seen {
		ref := job.Attempt{Job: j.id, Chunk: index, Number: s.Attempt}
		if i == len(seen)-1 {
			in.out.Emit(step.Fail{Attempt: ref.At(s.Node), Reason: reason, Final: true})
		} else {
			in.out.Emit(step.Settled{Attempt: ref.At(s.Node)})
		}
	}
	in.work.giveUp(j, index, reason, now)
}
