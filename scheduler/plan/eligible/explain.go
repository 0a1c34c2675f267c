package eligible

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// Reason is what keeps a worker from a job.
type Reason string

// Reasons. The first four are what a worker is, and lasts until somebody
// configures something else; the others are how it does now, as the caller says.
const (
	LacksExecutor   Reason = "executor"   // it does not run what the job runs
	LacksZone       Reason = "zone"       // it is in none of the job's zones
	LacksPermission Reason = "permission" // the job does not admit whose worker it is
	LacksAccept     Reason = "accept"     // its host does not run the jobs of whose job it is

	Gone     Reason = "gone"      // its host is dead
	NoStream Reason = "no_stream" // it is not reached
	Draining Reason = "draining"  // it finishes what it has
	Unready  Reason = "unready"   // it cannot take anything now
	Stuck    Reason = "stuck"     // nothing comes from it
)

// Candidate is a worker that a job is held against.
type Candidate struct {
	*Worker
	Node cluster.NodeID
	Now  Reason // what keeps it from every job now, ""
	// Coming says that it may yet tell what it runs, and that it is something
	// else than is known.
	Coming bool
}

// heard reports that the worker said what it runs.
func (w *Candidate) heard() bool { return len(w.Executors) > 0 }

// Explanation is how many workers may run a job, and what keeps the others from
// it. They stand there by their first Reason.
type Explanation struct {
	Workers  int // members that are or were heard of
	Eligible int // that may run it now
	Reasons  []Obstacle
	// Coming says that workers are on their way, so that nothing is sure yet.
	Coming bool
	// Never says that no worker may ever run it, as far as is known.
	Never bool
}

// Obstacle is what keeps some workers from a job.
type Obstacle struct {
	Reason  Reason
	Text    string // the same in words, of the workers: "not in zone fra"
	Workers []cluster.NodeID
}

// MaxExamples is how many workers an Obstacle names where it is shown.
const MaxExamples = 4

// Examples are the first workers, as many as are named where it is shown.
func (o Obstacle) Examples() []cluster.NodeID { return o.Workers[:min(len(o.Workers), MaxExamples)] }

// String implements fmt.Stringer.
func (e Explanation) String() string {
	noun := "workers"
	if e.Workers == 1 {
		noun = "worker"
	}
	out := fmt.Sprintf("%d of %d %s eligible", e.Eligible, e.Workers, noun)
	if len(e.Reasons) == 0 {
		return out
	}
	why := make([]string, len(e.Reasons))
	for i, o := range e.Reasons {
		why[i] = o.String()
	}
	return out + ": " + strings.Join(why, "; ")
}

// String implements fmt.Stringer: "n1, n2: not in zone fra".
func (o Obstacle) String() string {
	names := make([]string, 0, MaxExamples+1)
	for _, n := range o.Examples() {
		names = append(names, string(n))
	}
	out := strings.Join(names, ", ")
	if more := len(o.Workers) - len(names); more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out + ": " + o.Text
}

// Explain holds workers against a job of owner.
func (t *Classes) Explain(spec job.Spec, owner string, workers []Candidate) Explanation {
	return t.ExplainClass(newClass(spec, owner, true), workers)
}

// ExplainClass holds workers against the jobs of c.
func (t *Classes) ExplainClass(c *Class, workers []Candidate) Explanation {
	out := Explanation{Workers: len(workers), Never: true}
	heard := false
	by := make(map[Reason]*Obstacle)
	for i := range workers {
		w := &workers[i]
		lacks := t.Lacks(c, w.Worker)
		if !w.heard() {
			lacks = cmp.Or(w.Now, NoStream)
		}
		heard = heard || w.heard()
		out.Coming = out.Coming || w.Coming
		// A worker that was heard and lacks nothing may run it some day.
		if w.heard() && lacks == "" {
			out.Never = false
		}
		lacks = cmp.Or(lacks, w.Now)
		if lacks == "" {
			out.Eligible++
			continue
		}
		if by[lacks] == nil {
			by[lacks] = &Obstacle{Reason: lacks, Text: t.text(c, lacks)}
		}
		by[lacks].Workers = append(by[lacks].Workers, w.Node)
	}
	out.Never = out.Never && heard && !out.Coming
	for _, o := range by {
		slices.Sort(o.Workers)
		out.Reasons = append(out.Reasons, *o)
	}
	slices.SortFunc(out.Reasons, func(a, b Obstacle) int {
		return cmp.Or(cmp.Compare(len(b.Workers), len(a.Workers)), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

// text says what keeps workers from the jobs of c.
func (t *Classes) text(c *Class, why Reason) string {
	switch why {
	case LacksExecutor:
		if program, ok := strings.CutPrefix(c.executor, job.ExecutorExec+":"); ok {
			return "program " + program + " is not allowed there"
		}
		return "no executor " + c.executor
	case LacksZone:
		return "not in zone " + oneOf(c.zoneSet)
	case LacksPermission:
		return t.admits(c)
	case LacksAccept:
		return "its host does not run the jobs of " + c.owner
	case Gone:
		return "dead"
	case NoStream:
		return "not reached"
	case Unready:
		return "not ready"
	}
	return string(why)
}

// admits says whose workers alone the jobs of c admit.
func (t *Classes) admits(c *Class) string {
	switch c.access {
	case job.AccessUser:
		return "not a worker of " + oneOf(c.permission.Users)
	case job.AccessGroup:
		var none []string
		for _, g := range c.permission.Groups {
			if t.groups[g] == nil {
				none = append(none, g)
			}
		}
		if len(none) == len(c.permission.Groups) {
			return "there is no group " + oneOf(none)
		}
		return "not in group " + oneOf(c.permission.Groups)
	}
	return "not a worker of its owner " + c.owner
}

// oneOf names the first of a set.
func oneOf(set []string) string {
	const most = 3
	if n := len(set) - most; n > 0 {
		return strings.Join(set[:most], ", ") + fmt.Sprintf(" or %d others", n)
	}
	return strings.Join(set, " or ")
}
