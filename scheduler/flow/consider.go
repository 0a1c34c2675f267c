package flow

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
)

// runTime is the form of run.time.
const runTime = time.RFC3339

// consider looks at a step that waits for others: it stays as it is, is skipped, or
// begins.
func (m *Machine) consider(i int) {
	s, n := &m.steps[i], &m.g.nodes[i]
	if s.state != flow.Blocked {
		return
	}
	if s.begun {
		m.expand(i) // what it waited for had come
		return
	}
	waits := false
	for _, d := range n.deps {
		switch met, ended := m.met(d); {
		case !ended:
			waits = true
		case !met && m.halted(i) && m.steps[d.step].state == flow.Cancelled:
			waits = true // as if that had not ended: neither was to go on
		case !met:
			m.closeStep(i, flow.Skipped, unmet(&m.g.nodes[d.step], &m.steps[d.step], d.want))
			return
		}
	}
	if waits {
		if m.halted(i) {
			m.closeStep(i, flow.Cancelled, wasStopped)
		}
		return
	}
	if n.when != nil {
		yes, err := n.when.Evaluate(data{m}.environment(i))
		if err != nil {
			m.closeStep(i, flow.Failed, clip(err.Error()))
			return
		}
		if !yes {
			m.closeStep(i, flow.Skipped, "")
			return
		}
	}
	if m.halted(i) {
		m.closeStep(i, flow.Cancelled, wasStopped)
		return
	}
	m.expand(i)
}

// met reports whether what a step waits for has come, once it has ended.
func (m *Machine) met(d dep) (met, ended bool) {
	s, n := &m.steps[d.step], &m.g.nodes[d.step]
	if !s.state.Final() {
		return false, false
	}
	failed := m.failed(d.step)
	switch d.want {
	case wantEnd:
		return true, true
	case wantFailure:
		return failed, true
	}
	switch {
	case s.state == flow.Skipped:
		return s.reason == "", true
	case failed:
		return n.failureOf() == flow.FailureIgnore && s.state != flow.Cancelled, true
	}
	return true, true
}

// unmet says why a step that has ended does not let another begin.
func unmet(n *node, s *step, w want) string {
	if w == wantFailure {
		return fmt.Sprintf("step %s did not fail", n.Name)
	}
	if s.state == flow.Skipped {
		return fmt.Sprintf("step %s was skipped", n.Name)
	}
	return fmt.Sprintf("step %s: %s", n.Name, s.state)
}

// expand makes the instances of a step, as far as the log knows them already.
func (m *Machine) expand(i int) {
	s, n := &m.steps[i], &m.g.nodes[i]
	count := 1
	if n.each != nil || n.axes != nil {
		items, err := n.items(data{m}.look(i, nil))
		if err != nil {
			m.closeStep(i, flow.Failed, clip(err.Error()))
			return
		}
		s.items, count = items, len(items)
	}
	if m.all += count; m.all > flow.MaxAllInstances {
		m.closeStep(i, flow.Failed, fmt.Sprintf("more than %d instances of all steps", flow.MaxAllInstances))
		return
	}
	s.state, s.inst, s.left = flow.Ready, make([]instance, count), count
	if count == 0 {
		s.inst = []instance{}
		m.closeStep(i, flow.Completed, "")
		return
	}
	prior := s.prior
	for k := range s.inst {
		m.resume(i, k, prior[k])
		if s.state.Final() {
			return
		}
	}
	if m.halted(i) {
		m.haltStep(i)
		return
	}
	m.wake(i)
	m.pump(i)
}

// resume brings an instance to where the log says that it is.
func (m *Machine) resume(i, k int, p *prior) {
	s, n := &m.steps[i], &m.g.nodes[i]
	in := &s.inst[k]
	in.state = flow.Ready
	if p == nil {
		s.queue = append(s.queue, k)
		return
	}
	in.try, in.fails, in.losses, in.kept = p.try, p.fails, p.losses, p.kept
	switch {
	case p.good != nil:
		in.outputs, in.job, in.provider, in.kept, in.disputed = p.good.End.Outputs, p.whole, p.good.Provider, "", p.good.Disputed
		if r := p.remake; r.on || r.made+r.fails > 0 {
			r.due = never
			m.remakes[place{i, k}] = &r
		}
		m.close(i, k, p.good.End.State)
	case p.running != nil:
		in.state, in.try, in.job, in.provider, in.kept = flow.Running, p.running.Try, p.running.Job, p.running.Provider, ""
		s.state = flow.Running
		s.running++
	case p.bad != nil && !m.again(i, p.fails, p.bad.End.State, p.bad.End.Final):
		in.reason, in.job, in.provider = p.bad.End.Reason, p.bad.Job, p.bad.Provider
		if n.again(p.fails, p.bad.End.State, p.bad.End.Final) { // the run was stopped before
			m.dropKept(i, k)
			in.kept = ""
		}
		m.close(i, k, p.bad.End.State)
	case p.bad != nil:
		in.reason = p.bad.End.Reason
		in.ready = m.turn.now
		if n.Retry.BackoffSeconds > 0 {
			in.ready = p.endedAt + seconds(n.Retry.BackoffSeconds)
		}
		m.wait(i, k)
	default:
		s.queue = append(s.queue, k)
	}
}

// Instance is how an instance of a step is getting on.
type Instance struct {
	Index  int
	State  flow.State
	Try    int
	Job    job.ID // of the last try; empty: none was submitted
	Reason string
	// Provider is the job of that of the last try; empty: none was submitted.
	Provider job.ID
	Disputed bool // another end of it was logged as well, or results of its job differ
	Item     any  // nil: it has none
	Outputs  map[string]json.RawMessage
}

// StepView is how a step is getting on.
type StepView struct {
	Def       *flow.Step
	State     flow.State
	Reason    string
	Counts    map[flow.State]int // of its instances
	Instances []Instance         // none: they are not known yet
	After     []int              // steps that it names as before it
}

// View says how all steps are getting on, in the order of the definition. It is made
// anew.
func (m *Machine) View() []StepView {
	out := make([]StepView, len(m.steps))
	for i := range m.steps {
		s, n := &m.steps[i], &m.g.nodes[i]
		v := StepView{Def: n.Step, State: s.state, Reason: s.reason, Counts: maps.Clone(s.ended)}
		for k := range s.inst {
			in := &s.inst[k]
			one := Instance{Index: k, State: in.state, Try: in.try, Job: in.job, Provider: in.provider, Disputed: in.disputed, Reason: in.reason, Outputs: in.outputs}
			if s.items != nil {
				one.Item = s.items[k]
			}
			if !in.state.Final() {
				v.Counts[in.state]++
			}
			v.Instances = append(v.Instances, one)
		}
		for _, names := range [][]string{n.After, n.AfterFailed, n.AfterDone} {
			for _, name := range names {
				v.After = append(v.After, m.g.byName[name])
			}
		}
		out[i] = v
	}
	return out
}
