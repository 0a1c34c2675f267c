package eligible

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// Decider says who says what becomes of a job that waits with chunks given up.
func Decider(key string) string {
	if strings.HasPrefix(key, flow.KeyPrefix) {
		return "its workflow or an operator"
	}
	return "an operator"
}

// Reason is what keeps a worker from a job, or a job from all workers.
type Reason string

// Reasons of a worker, in the order in which the first of them is told: how it does
// now, as the caller says; what it is, which lasts until somebody configures something
// else; and what the chunks that are to be given out have been through. A worker that
// is busy may run the job all the same.
const (
	Gone     Reason = "gone"      // its host is dead
	NoStream Reason = "no_stream" // it is not reached
	Draining Reason = "draining"  // it finishes what it has
	Unready  Reason = "unready"   // it cannot take anything now
	Stuck    Reason = "stuck"     // nothing comes from it

	Distrusted Reason = "distrusted" // what it computed was wrong too often

	LacksExecutor   Reason = "executor"     // it does not run what the job runs
	LacksVersion    Reason = "version"      // it does not know what the job has: files, outputs or no result
	LacksMemory     Reason = "memory"       // it allows less memory than the job asks for
	LacksZone       Reason = "zone"         // it is in none of the job's zones
	LacksPermission Reason = "permission"   // the job does not admit whose worker it is
	LacksAccept     Reason = "not_accepted" // its host does not run the jobs of whose job it is
	LacksOutputRoom Reason = "output_room"  // it has no room for what the job's chunks leave

	Excluded Reason = "excluded" // attempts failed there, and others come first
	Opinion  Reason = "opinion"  // its result is known, another's is wanted
	Unproven Reason = "unproven" // its word alone does not count, and that of others does
	Reserved Reason = "reserved" // what is free in its zone is kept for others' jobs
	Busy     Reason = "busy"     // it has no room
)

// Reasons of a job, which come before those of any worker.
const (
	After    Reason = "after"    // it waits for other jobs
	Held     Reason = "held"     // nothing new is given out
	Backoff  Reason = "backoff"  // what failed is not to be tried again yet
	Operator Reason = "operator" // all that is open was given up, and an operator is to say what becomes of it
)

// Candidate is a worker that a job is held against.
type Candidate struct {
	*Worker
	Node cluster.NodeID
	Now  Reason // what keeps it from every job now, ""
	// Then is what keeps a worker from the job that may run it, "": nothing.
	Then Reason
	// Coming says that it may yet tell what it runs, and that it is something
	// else than is known.
	Coming bool
}

// heard reports that the worker said what it runs.
func (w *Candidate) heard() bool { return len(w.Executors) > 0 }

// Explanation is how many workers may run a job, and what keeps the others from
// it. They stand there by their first Reason.
type Explanation struct {
	// Job is what keeps the job from all workers; without a Reason: nothing.
	Job      Obstacle
	Workers  int // members that are or were heard of
	Eligible int // that may run it now, those that are busy included
	Reasons  []Obstacle
	Free     []cluster.NodeID // that nothing keeps from it
	// Coming says that workers are on their way, so that nothing is sure yet.
	Coming bool
	// Never says that no worker may ever run it, as far as is known.
	Never bool
}

// Row is what an Explanation says of one worker.
type Row struct {
	Node     cluster.NodeID
	Eligible bool
	Reason   Reason // "": nothing keeps it from the job
	Text     string // the same in words
}

// Rows are all workers by name.
func (e Explanation) Rows() []Row {
	rows := make([]Row, 0, e.Workers)
	for _, n := range e.Free {
		rows = append(rows, Row{Node: n, Eligible: true})
	}
	for _, o := range e.Reasons {
		for _, n := range o.Workers {
			rows = append(rows, Row{Node: n, Eligible: o.Reason == Busy, Reason: o.Reason, Text: o.Text})
		}
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Node, b.Node) })
	return rows
}

// Main is the reason that says most: that of the job, else that of the most workers.
func (e Explanation) Main() Reason {
	if e.Job.Reason == "" && len(e.Reasons) > 0 {
		return e.Reasons[0].Reason
	}
	return e.Job.Reason
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
	if e.Job.Reason != "" {
		return e.Job.Text
	}
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

// Foresee holds workers against a job of owner that may be submitted. If none of them
// may ever run it, they stand there by what lasts, and not by how they do now.
func (t *Classes) Foresee(spec job.Spec, owner string, workers []Candidate) Explanation {
	c := newClass(spec, owner, true)
	out := t.explain(c, workers, false)
	if out.Never {
		out = t.explain(c, workers, true)
	}
	return out
}

// Explain holds workers against the jobs of c.
func (t *Classes) Explain(c *Class, workers []Candidate) Explanation {
	return t.explain(c, workers, false)
}

func (t *Classes) explain(c *Class, workers []Candidate, lasting bool) Explanation {
	out := Explanation{Workers: len(workers), Never: true}
	heard := false
	by := make(map[Reason]*Obstacle)
	for i := range workers {
		w := &workers[i]
		lacks, now := t.Lacks(c, w.Worker), w.Now
		if w.heard() {
			heard = true
			// One that lacks nothing may run it some day.
			out.Never = out.Never && lacks != "" && lacks != LacksOutputRoom
		} else {
			lacks, now = "", cmp.Or(now, NoStream)
		}
		out.Coming = out.Coming || w.Coming
		why := cmp.Or(now, lacks, w.Then)
		if lasting {
			why = cmp.Or(lacks, why)
		}
		if why == "" || why == Busy {
			out.Eligible++
		}
		if why == "" {
			out.Free = append(out.Free, w.Node)
			continue
		}
		if by[why] == nil {
			by[why] = &Obstacle{Reason: why, Text: t.text(c, why)}
		}
		by[why].Workers = append(by[why].Workers, w.Node)
	}
	out.Never = out.Never && heard && !out.Coming
	slices.Sort(out.Free)
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
	case LacksVersion:
		return "it does not take jobs with files"
	case LacksOutputRoom:
		return "no room for what the job's chunks leave"
	case LacksMemory:
		return fmt.Sprintf("it allows less memory than %d MiB", c.memory>>20)
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
	case Excluded:
		return "attempts failed there, others come first"
	case Opinion:
		return "its result is known, another host's is wanted"
	case Unproven:
		return "its word alone does not count, others come first"
	case Reserved:
		return "the free slots of its zone are reserved for others: `skein reserve ls`"
	case Distrusted:
		return "too many of its results were wrong"
	case Busy:
		return "has no room"
	}
	return string(why)
}

// admits says whose workers alone the jobs of c admit.
func (t *Classes) admits(c *Class) string {
	switch c.access {
	case job.AccessPublic:
		return "run by no host, and the job does not go outside"
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
