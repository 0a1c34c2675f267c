package flow

import (
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// maxHeld is how many jobs of a run that failed in part wait for its retry: those beyond
// it end, and are then computed from scratch.
const maxHeld = 64

// held are jobs of tries that failed in part.
type held struct {
	n      int    // that wait for a retry of the run
	orphan []kept // that nobody will go on with
	bytes  int    // of outputs that are larger than usual
}

// kept is the job of a try.
type kept struct {
	Name
	job job.ID
}

// takes reports whether a job that waits, and would end so, is left for a retry of a run that
// holds such ones.
func (h *held) takes(holds bool, s flow.State) bool {
	return holds && s == flow.Partial && h.n < maxHeld
}

// jobHeld takes in that the job of a try waits for somebody who says whether it goes on.
func (m *Machine) jobHeld(e JobHeld) {
	i, in := m.find(e.Name)
	if p, r := restoring(m).remakeOf(e.Name); r != nil && r.job != "" {
		m.do(Conclude{Name: e.Name, Job: m.remakes[p].job}) // what is left of it is no use
	} else if in != nil && in.job != "" && !in.looking && !m.halted(i) && m.g.nodes[i].Job.Partial() == job.PartialFinish {
		m.lookFirst(i, e.Name, End{State: flow.OfJob(e.State), Reason: e.Reason, Kept: true, waits: true})
	}
}

// tried ends a try, unless its job is to end before.
func (m *Machine) tried(i, k int, e End) {
	in := &m.steps[i].inst[k]
	if e.waits && !e.Lost && !m.again(i, in.fails+1, e.State, false) && !m.held.takes(m.run.Holds, e.State) {
		m.do(Conclude{Name: m.name(i, k), Job: in.job})
		return
	}
	m.end(i, k, e)
}

// dropKept ends the job with which another try was to go on.
func (m *Machine) dropKept(i, k int) {
	if in := &m.steps[i].inst[k]; in.kept != "" {
		m.do(StopJob{Name: m.name(i, k), Job: in.kept})
	}
}
