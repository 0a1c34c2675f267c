package flow

import (
	"encoding/json"
	"fmt"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/flow/condition"
	"github.com/skein-project/skein/scheduler/flow/template"
)

// data is a Machine as far as steps read values.
type data struct{ *Machine }

// look finds values that step i may read; with item, those of that item too.
func (m data) look(i int, item *any) func(path []string) (any, error) {
	return func(path []string) (any, error) {
		switch path[0] {
		case rootParams:
			return template.Walk(m.g.params, path[1:])
		case rootItem:
			if item == nil {
				return nil, errLater
			}
			return template.Walk(*item, path[1:])
		case rootRun:
			if path[1] == "id" {
				return string(m.run.Run), nil
			}
			return m.run.Submitted.Time().UTC().Format(runTime), nil
		}
		at := m.g.byName[path[0]]
		v, err := template.Walk(m.value(at, path[1]), path[2:])
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", path[0], path[1], err)
		}
		return v, nil
	}
}

// value is an output of a step that has ended: of one with items a list of those of its
// instances, null where there is none.
func (m data) value(i int, name string) any {
	s, n := &m.steps[i], &m.g.nodes[i]
	if v, ok := s.values[name]; ok {
		return v
	}
	of := func(in *instance) any {
		if v, err := template.Decode(in.outputs[name]); err == nil {
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
func (m data) environment(i int) map[string]any {
	env := map[string]any{
		rootParams: condition.Plain(m.g.params),
		rootRun:    map[string]any{"id": string(m.run.Run), "time": m.run.Submitted.Time().UTC().Format(runTime)},
	}
	for k, is := range m.g.nodes[i].above {
		if !is {
			continue
		}
		one := map[string]any{whenState: string(m.steps[k].state)}
		for name := range m.g.nodes[k].outputs {
			one[name] = condition.Plain(m.value(k, name))
		}
		env[m.g.nodes[k].Name] = one
	}
	return env
}

// document is the config document of an instance.
func (m data) document(i, k int) ([]byte, error) {
	doc, err := m.values(i, k)
	if err != nil {
		return nil, err
	}
	return encode(doc)
}

// values are what a config document of an instance has of the run.
func (m data) values(i, k int) (map[string]any, error) {
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
		v, err := n.inputs[name].Fill(look)
		if err != nil {
			return nil, fmt.Errorf("input %s: %w", name, err)
		}
		inputs[name] = v
	}
	doc["inputs"] = inputs
	return doc, nil
}

// encode writes a config document: equal ones give equal bytes.
func encode(doc any) ([]byte, error) {
	if template.Larger(doc, job.MaxConfigBytes) { // of values that are named often there may be very much
		return nil, fmt.Errorf("inputs: config document of more than %d bytes", job.MaxConfigBytes)
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("inputs: %w", err)
	}
	if len(b) > job.MaxConfigBytes {
		return nil, fmt.Errorf("inputs: config document of %d bytes, at most %d are allowed", len(b), job.MaxConfigBytes)
	}
	return b, nil
}
