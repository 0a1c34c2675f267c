package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/eligible"
)

// firstContact is how long a host that was just learned of, lost or heard again
// may take to open its stream before it counts as one without a worker.
const firstContact = 10 * time.Second

// lacks says what keeps w from every job now, or "".
func (w *worker) lacks() eligible.Reason {
	switch {
	case w.gone():
		return eligible.Gone
	case !w.healthy():
		return eligible.NoStream
	case w.draining:
		return eligible.Draining
	case !w.ready():
		return eligible.Unready
	case w.signal == Stuck:
		return eligible.Stuck
	}
	return ""
}

// candidates are all workers but those that left, as jobs are held against them.
func (r *roster) candidates(now time.Duration) []eligible.Candidate {
	out := make([]eligible.Candidate, 0, len(r.workers))
	for _, w := range r.workers {
		if w != nil && w.health != cluster.Left {
			out = append(out, eligible.Candidate{Worker: &w.host, Node: w.node, Now: w.lacks(), Coming: w.coming(now)})
		}
	}
	return out
}

// explain says what keeps workers from the jobs of c.
func (r *roster) explain(c *eligible.Class, now time.Duration) eligible.Explanation {
	return r.classes.ExplainClass(c, r.candidates(now))
}

// Explain says which workers may run a job of owner, and what keeps the others
// from it.
func (p *Plan) Explain(spec job.Spec, owner string, now time.Duration) eligible.Explanation {
	return p.roster.classes.Explain(spec, owner, p.roster.candidates(now))
}

// Waiting is a job that waits while no worker may run it.
type Waiting struct {
	Job   job.ID
	Since time.Duration // as the times that Step is given
	Why   eligible.Explanation
}

// Waiting lists the jobs that wait while no worker may run them, those that wait
// longest first. One for which a worker may just be on its way is not among
// them yet.
func (p *Plan) Waiting(now time.Duration) []Waiting { return p.work.starving(now) }

func (k *work) starving(now time.Duration) (out []Waiting) {
	by := make(map[*eligible.Class]eligible.Explanation)
	for _, j := range k.jobs {
		if j.starved.since == 0 {
			continue
		}
		why, ok := by[j.class]
		if !ok {
			why = k.roster.explain(j.class, now)
			by[j.class] = why
		}
		if !why.Coming {
			out = append(out, Waiting{Job: j.id, Since: j.starved.since, Why: why})
		}
	}
	slices.SortStableFunc(out, func(a, b Waiting) int { return cmp.Compare(a.Since, b.Since) })
	return out
}
