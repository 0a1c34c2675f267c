package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/flow/source"
	"github.com/skein-project/skein/scheduler/flow/template"
)

// errLater says that a value depends on what another step computes.
var errLater = errors.New("not known yet")

// items lists the items of a step with each or matrix.
func (n *node) items(look func(path []string) (any, error)) ([]any, error) {
	list := func(what string, v template.Value) ([]any, error) {
		got, err := v.Fill(look)
		if err != nil {
			return nil, err
		}
		out, ok := got.([]any)
		if !ok {
			return nil, fmt.Errorf("%s: %.64s is no list", what, template.Show(got))
		}
		if len(out) > flow.MaxInstances {
			return nil, fmt.Errorf("%s: %d items, at most %d are allowed", what, len(out), flow.MaxInstances)
		}
		return out, nil
	}
	if n.each != nil {
		return list("each", *n.each)
	}
	items := []any{map[string]any{}}
	for _, a := range n.axes {
		values, err := list("matrix."+a.name, a.v)
		if err != nil {
			return nil, err
		}
		if len(items)*len(values) > flow.MaxInstances {
			return nil, fmt.Errorf("matrix: %d items, at most %d are allowed", len(items)*len(values), flow.MaxInstances)
		}
		next := make([]any, 0, len(items)*len(values))
		for _, item := range items {
			for _, v := range values {
				one := map[string]any{a.name: v}
				maps.Copy(one, item.(map[string]any))
				next = append(next, one)
			}
		}
		items = next
	}
	return items, nil
}

// outputsOf takes the outputs of a step from the result of a job, and what its chunks
// left, but for those of its provider.
func (n *node) outputsOf(r *job.Result, left []job.OutputFile) (map[string]json.RawMessage, error) {
	if len(n.outputs) == 0 {
		return nil, nil
	}
	out, size := make(map[string]json.RawMessage, len(n.outputs)), 0
	for _, name := range sortedKeys(n.outputs) {
		if n.outputs[name].Kind == source.Provider {
			continue
		}
		v, err := n.outputs[name].Of(r, left)
		if err != nil {
			return nil, fmt.Errorf("output %s: %w", name, err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("output %s: %w", name, err)
		}
		if size += len(name) + len(b); size > flow.MaxValueBytes {
			return nil, fmt.Errorf("output %s: the outputs have more than %d bytes", name, flow.MaxValueBytes)
		}
		out[name] = b
	}
	return out, nil
}
