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
		yes, err := evaluate(n.when, m.environment(i))
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
		items, err := n.items(m.look(i, nil))
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
	in.try, in.fails, in.losses = p.try, p.fails, p.losses
	switch {
	case p.good != nil:
		in.outputs, in.job = p.good.End.Outputs, p.good.Job
		if r := p.remake; r.on || r.made+r.fails > 0 {
			r.due = never
			m.remakes[place{i, k}] = &r
		}
		m.close(i, k, p.good.End.State)
	case p.running != nil:
		in.state, in.try, in.job = flow.Running, p.running.Try, p.running.Job
		s.state = flow.Running
		s.running++
	case p.bad != nil && !m.again(i, p.fails, p.bad.End.State, p.bad.End.Final):
		in.reason, in.job = p.bad.End.Reason, p.bad.Job
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

// look finds values that step i may read; with item, those of that item too.
func (m *Machine) look(i int, item *any) func(path []string) (any, error) {
	return func(path []string) (any, error) {
		switch path[0] {
		case rootParams:
			return walk(m.g.params, path[1:])
		case rootItem:
			if item == nil {
				return nil, errLater
			}
			return walk(*item, path[1:])
		case rootRun:
			if path[1] == "id" {
				return string(m.run.Run), nil
			}
			return m.run.Submitted.Time().UTC().Format(runTime), nil
		}
		at := m.g.byName[path[0]]
		v, err := walk(m.value(at, path[1]), path[2:])
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", path[0], path[1], err)
		}
		return v, nil
	}
}

// value is an output of a step that has ended: of one with items a list of those of its
// instances, null where there is none.
func (m *Machine) value(i int, name string) any {
	s, n := &m.steps[i], &m.g.nodes[i]
	if v, ok := s.values[name]; ok {
		return v
	}
	of := func(in *instance) any {
		if v, err := decode(in.outputs[name]); err == nil {
			return v
		}
		return nil
	}
	var v any
	switch {
	case n.each != nil || n.axes != nil:
		list := make([]any, len(s.inst))
		for k := range s.inst {
			list[k] = of(&s.inst[k])
		}
		v = list
		if s.inst == nil {
			v = nil // it was skipped
		}
	case len(s.inst) == 1:
		v = of(&s.inst[0])
	}
	if s.values == nil {
		s.values = make(map[string]any)
	}
	s.values[name] = v
	return v
}

// environment is what the expression of a step sees.
func (m *Machine) environment(i int) map[string]any {
	env := map[string]any{
		rootParams: plainNumbers(m.g.params),
		rootRun:    map[string]any{"id": string(m.run.Run), "time": m.run.Submitted.Time().UTC().Format(runTime)},
	}
	for k, is := range m.g.nodes[i].above {
		if !is {
			continue
		}
		one := map[string]any{whenState: string(m.steps[k].state)}
		for name := range m.g.nodes[k].outputs {
			one[name] = plainNumbers(m.value(k, name))
		}
		env[m.g.nodes[k].Name] = one
	}
	return env
}

// document is the config document of an instance.
func (m *Machine) document(i, k int) ([]byte, error) {
	s, n := &m.steps[i], &m.g.nodes[i]
	doc := map[string]any{"params": m.g.params}
	var item *any
	if s.items != nil {
		item = &s.items[k]
		doc["item"] = s.items[k]
	}
	inputs := make(map[string]any, len(n.inputs))
	look := m.look(i, item)
	for _, name := range sortedKeys(n.inputs) {
		v, err := n.inputs[name].fill(look)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", name, err)
		}
		inputs[name] = v
	}
	doc["inputs"] = inputs
	b, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("inputs: %w", err)
	}
	if len(b) > job.MaxConfigBytes {
		return nil, fmt.Errorf("inputs: config document of %d bytes, at most %d are allowed", len(b), job.MaxConfigBytes)
	}
	return b, nil
}

// Instance is how an instance of a step is getting on.
type Instance struct {
	Index   int
	State   flow.State
	Try     int
	Job     job.ID // of the last try; empty: none was submitted
	Reason  string
	Item    any // nil: it has none
	Outputs map[string]json.RawMessage
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
			one := Instance{Index: k, State: in.state, Try: in.try, Job: in.job, Reason: in.reason, Outputs: in.outputs}
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
