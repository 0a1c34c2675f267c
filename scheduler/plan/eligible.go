package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/plan/vital"
)

// lacks says what keeps w from every job now, or "".
func (w *worker) lacks() eligible.Reason {
	switch {
	case w.Gone():
		return eligible.Gone
	case !w.Healthy():
		return eligible.NoStream
	case w.draining:
		return eligible.Draining
	case !w.ready():
		return eligible.Unready
	case w.signal == vital.Stuck:
		return eligible.Stuck
	case w.Distrusted():
		return eligible.Distrusted
	}
	return ""
}

// candidates are all workers but those that left, as jobs are held against them; then
// says what keeps a worker that has room from a job that it may run.
func (r *roster) candidates(now time.Duration, then func(*worker) eligible.Reason) []eligible.Candidate {
	out := make([]eligible.Candidate, 0, len(r.workers))
	for _, w := range r.workers {
		if w == nil || w.Health == cluster.Left {
			continue
		}
		c := eligible.Candidate{Worker: &w.host, Node: w.node, Now: w.lacks(), Coming: w.Coming(now)}
		if c.Then = eligible.Busy; w.open {
			c.Then = then(w)
		}
		out = append(out, c)
	}
	return out
}

func nothing(*worker) eligible.Reason { return "" }

// Foresee says the same of a job of owner that may be submitted as Explain of an open one.
func (p *Plan) Foresee(spec job.Spec, owner string, now time.Duration) eligible.Explanation {
	return p.roster.classes.Foresee(spec, owner, p.roster.candidates(now, nothing))
}

// Explain says what keeps workers from an open job now, or the job from all: as choose does. It also tells
// since when nothing of the job runs though something is to be done; 0: it runs, or waits for nothing.
func (p *Plan) Explain(id job.ID, now time.Duration) (why eligible.Explanation, since time.Duration, ok bool) {
	j := p.work.byID[id]
	if j == nil {
		return why, 0, false
	}
	return p.explain(j, now), j.idle(), true
}

func (p *Plan) explain(j *openJob, now time.Duration) eligible.Explanation {
	next := j.next()
	why := p.roster.classes.Explain(j.class, p.roster.candidates(now, func(w *worker) eligible.Reason { return p.choice.keeps(j, next, w, now) }))
	why.Job = p.obstacle(j)
	return why
}

// keeps says what keeps all those chunks of j from w, which may run them and has room, or "".
func (h *chooser) keeps(j *openJob, chunks []int, w *worker, now time.Duration) (why eligible.Reason) {
	for _, i := range chunks {
		c := &j.chunks[i]
		switch of := h.work.audience(j, c); {
		case c.check.Knows(w.node):
			why = eligible.Opinion
		case !of.Admits(&w.host):
			why = eligible.Unproven
		case !h.roster.kept.Admits(w.host.Keeps(), j.owner):
			why = eligible.Reserved
		case (slices.Contains(c.avoid, w.node) || w.pace.LeftOut(j.kind, now)) && h.others(j, c, of, now):
			why = eligible.Excluded
		default:
			return ""
		}
	}
	return why
}

// obstacle is what keeps j from all workers, if anything does.
func (p *Plan) obstacle(j *openJob) eligible.Obstacle {
	switch {
	case j.waits:
		return eligible.Obstacle{Reason: eligible.Operator, Text: fmt.Sprintf("for %s, %s given up", eligible.Decider(j.spec.Key), j.share(givenUp))}
	case p.held && j.count[pending] > 0:
		return eligible.Obstacle{Reason: eligible.Held, Text: "the event log has no room for new work"}
	case j.waiting > 0 && j.waiting == j.count[pending]:
		return eligible.Obstacle{Reason: eligible.Backoff, Text: "what failed is tried again in a moment"}
	}
	return eligible.Obstacle{}
}

// Waiting is a job of which nothing runs though something is to be done.
type Waiting struct {
	Job   job.ID
	Since time.Duration // as the times that Step is given
	Why   eligible.Explanation
}

const (
	// queueing is how long a job may be without a chunk that runs before it counts as waiting.
	queueing = 5 * time.Second
	// maxExplained bounds the jobs that are held against the workers one by one at a look.
	maxExplained = 64
)

// Waiting lists the jobs that wait, those that wait longest first: at once where no
// worker may run them, unless one may just be on its way.
func (p *Plan) Waiting(now time.Duration) (out []Waiting) {
	by := make(map[*eligible.Class]eligible.Explanation)
	each := maxExplained
	for _, j := range p.work.jobs {
		if j.idle() == 0 || j.starved.Since == 0 && now-j.idle() < queueing {
			continue
		}
		why, ok := by[j.class]
		obstacle := p.obstacle(j)
		switch {
		case obstacle.Reason == "" && j.class.Room().Len() > 0 && each > 0: // what was tried of the job decides
			why = p.explain(j, now)
			each--
		case !ok:
			why = p.roster.classes.Explain(j.class, p.roster.candidates(now, nothing))
			by[j.class] = why
		}
		if why.Job = obstacle; obstacle.Reason == "" && why.Eligible == 0 && why.Coming {
			continue
		}
		out = append(out, Waiting{Job: j.id, Since: j.idle(), Why: why})
	}
	slices.SortStableFunc(out, func(a, b Waiting) int { return cmp.Compare(a.Since, b.Since) })
	return out
}
