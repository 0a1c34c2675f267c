package flow

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/flow/condition"
	"github.com/skein-project/skein/scheduler/flow/source"
	"github.com/skein-project/skein/scheduler/flow/template"
)

// Roots of references that are no steps.
const (
	rootParams = "params"
	rootItem   = "item"
	rootRun    = "run"
)

// reserved are names that mean something else where steps are named.
var reserved = []string{
	rootParams, rootItem, rootRun, "len", "any", "all", "true", "false", "nil", "not", "in", "and", "or", "matches", "contains", "let", "if", "else",
}

// Graph is a definition that makes sense, with the parameters of one run. It is never
// changed.
type Graph struct {
	Def    flow.Def
	params map[string]any
	nodes  []node
	byName map[string]int
	order  []int // each behind those that it waits for
}

// node is one step of a Graph.
type node struct {
	*flow.Step
	deps    []dep
	next    []int // that wait for it, but for a teardown's waiting for all
	above   []bool
	each    *template.Value
	axes    []axis // of a matrix, by name
	inputs  map[string]template.Value
	when    *condition.Expression
	outputs map[string]source.Source
	provide job.Spec // of its provider, if it has one
}

// dep is what a step waits for.
type dep struct {
	step int
	want want
}

type want byte

const (
	wantSuccess want = iota
	wantFailure
	wantEnd
)

type axis struct {
	name string
	v    template.Value
}

// Compile checks a definition and the parameters of a run. Its errors wrap
// flow.ErrInvalid.
func Compile(d flow.Def, params map[string]json.RawMessage) (*Graph, error) {
	g := &Graph{Def: d, byName: make(map[string]int)}
	for _, check := range []func() error{
		g.checkRun, func() error { return g.takeParams(params) }, g.takeSteps, g.link, g.sort, g.takeValues,
	} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// Has reports whether there is a step of that name.
func (g *Graph) Has(step string) bool {
	_, ok := g.byName[step]
	return ok
}

func checkName(what, name string) error {
	if name == "" || len(name) > flow.MaxName || strings.Trim(name, template.NameChars) != "" || name[0] >= '0' && name[0] <= '9' {
		return flow.Invalidf("%s %.70q: a name is 1 to %d of a-z, 0-9 and _, and begins with a letter", what, name, flow.MaxName)
	}
	if what == "step" && slices.Contains(reserved, name) || what == "output" && name == whenState {
		return flow.Invalidf("%s %q: the name means something else", what, name)
	}
	return nil
}

func (g *Graph) checkRun() error {
	d := g.Def
	switch {
	case len(d.Name) > flow.MaxName:
		return flow.Invalidf("name has %d bytes, at most %d are allowed", len(d.Name), flow.MaxName)
	case len(d.Steps) == 0:
		return flow.Invalidf("no steps")
	case len(d.Steps) > flow.MaxSteps:
		return flow.Invalidf("%d steps, at most %d are allowed", len(d.Steps), flow.MaxSteps)
	case len(d.Params) > flow.MaxParams:
		return flow.Invalidf("%d params, at most %d are allowed", len(d.Params), flow.MaxParams)
	}
	if err := checkQuorum(d); err != nil {
		return err
	}
	for _, s := range []struct {
		name string
		v    float64
	}{{"timeout_seconds", d.TimeoutSeconds}, {"teardown_seconds", d.TeardownSeconds}, {"keep_seconds", d.KeepSeconds}} {
		if err := checkSeconds(s.name, s.v); err != nil {
			return err
		}
	}
	return nil
}

func checkSeconds(name string, v float64) error {
	if !(v >= 0) || v > flow.MaxSeconds {
		return flow.Invalidf("%s is %g, want 0 to %g", name, v, flow.MaxSeconds)
	}
	return nil
}

func (g *Graph) takeParams(given map[string]json.RawMessage) error {
	g.params = make(map[string]any, len(g.Def.Params))
	for _, name := range sortedKeys(g.Def.Params) {
		p := g.Def.Params[name]
		if err := checkName("param", name); err != nil {
			return err
		}
		text := p.Default
		if v, ok := given[name]; ok {
			text = v
		}
		if len(text) == 0 {
			return flow.Invalidf("param %s is missing: it has no default", name)
		}
		v, err := template.Decode(text)
		if err == nil {
			v, err = template.Typed(p.Type, v)
		}
		if err != nil {
			return flow.Invalidf("param %s: %v", name, err)
		}
		g.params[name] = v
	}
	for _, name := range sortedKeys(given) {
		if _, ok := g.Def.Params[name]; !ok {
			return flow.Invalidf("unknown param %.64q, have: %s", name, strings.Join(sortedKeys(g.Def.Params), ", "))
		}
	}
	return nil
}

func (g *Graph) takeSteps() error {
	g.nodes = make([]node, len(g.Def.Steps))
	for i := range g.Def.Steps {
		s := g.Def.Steps[i]
		if err := checkName("step", s.Name); err != nil {
			return err
		}
		if _, double := g.byName[s.Name]; double {
			return flow.Invalidf("two steps are called %s", s.Name)
		}
		g.byName[s.Name] = i
		g.nodes[i].Step = &s
		if err := checkStep(&s); err != nil {
			return flow.Invalidf("step %s: %s", s.Name, strings.TrimPrefix(err.Error(), flow.ErrInvalid.Error()+": "))
		}
	}
	return nil
}

// retryable are the ends after which an instance may be tried again.
var retryable = []flow.State{flow.Failed, flow.TimedOut, flow.Partial}

func checkStep(s *flow.Step) error {
	switch {
	case s.Role != "" && s.Role != flow.RoleSetup && s.Role != flow.RoleTeardown:
		return flow.Invalidf("unknown role %.32q, have: setup, teardown", s.Role)
	case s.OnFailure != "" && s.OnFailure != flow.FailureFail && s.OnFailure != flow.FailureIgnore && s.OnFailure != flow.FailureStop:
		return flow.Invalidf("on_failure is %.32q, want fail, ignore or stop", s.OnFailure)
	case s.Role == flow.RoleTeardown && s.OnFailure == flow.FailureStop:
		return flow.Invalidf("on_failure is stop: nothing is left to stop behind a teardown")
	case s.MaxParallel < 0 || s.MaxParallel > flow.MaxInstances:
		return flow.Invalidf("max_parallel is %d, want 1-%d", s.MaxParallel, flow.MaxInstances)
	case s.Retry.Times < 0 || s.Retry.Times > flow.MaxRetries:
		return flow.Invalidf("retry.times is %d, want 0-%d", s.Retry.Times, flow.MaxRetries)
	case len(s.When) > flow.MaxWhenBytes:
		return flow.Invalidf("when has %d bytes, at most %d are allowed", len(s.When), flow.MaxWhenBytes)
	case len(s.Each) > 0 && len(s.Matrix) > 0:
		return flow.Invalidf("each and matrix exclude each other")
	case len(s.Matrix) > flow.MaxAxes:
		return flow.Invalidf("matrix of %d lists, at most %d are allowed", len(s.Matrix), flow.MaxAxes)
	case len(s.Outputs) > flow.MaxOutputs:
		return flow.Invalidf("%d outputs, at most %d are allowed", len(s.Outputs), flow.MaxOutputs)
	case s.Job.Key != "":
		return flow.Invalidf("job: key is set, which the workflow chooses")
	case len(s.Inputs) > 0 && !s.Job.Config.IsZero():
		return flow.Invalidf("job: config and inputs exclude each other: with inputs the config is made of them")
	}
	for _, on := range s.Retry.On {
		if !slices.Contains(retryable, flow.State(on)) {
			return flow.Invalidf("retry.on has %.32q, want some of failed, timeout, partial", on)
		}
	}
	if err := checkSeconds("retry.backoff_seconds", s.Retry.BackoffSeconds); err != nil {
		return err
	}
	spec := s.Job
	spec.Key = "wf"
	if len(spec.After) > 0 {
		return flow.Invalidf("job: after names jobs; what a step waits for stands in the step")
	}
	if err := spec.WithDefaults().Validate(); err != nil {
		return flow.Invalidf("job: %s", strings.TrimPrefix(err.Error(), job.ErrSpec.Error()+": "))
	}
	return nil
}

// link finds what each step waits for: what it names, and what its role says.
func (g *Graph) link() error {
	edges := 0
	for i := range g.nodes {
		n := &g.nodes[i]
		seen := make(map[int]bool)
		add := func(step int, w want) {
			n.deps = append(n.deps, dep{step, w})
			if !seen[step] {
				seen[step] = true
				g.nodes[step].next = append(g.nodes[step].next, i)
			}
		}
		for _, list := range []struct {
			names []string
			want  want
		}{{n.After, wantSuccess}, {n.AfterFailed, wantFailure}, {n.AfterDone, wantEnd}} {
			for _, name := range list.names {
				at, ok := g.byName[name]
				if !ok {
					return flow.Invalidf("step %s: it waits for %.64q, and there is no such step", n.Name, name)
				}
				if g.nodes[at].Role == flow.RoleTeardown && n.Role != flow.RoleTeardown {
					return flow.Invalidf("step %s: it waits for %s, which is a teardown and comes last", n.Name, name)
				}
				if n.Role == flow.RoleSetup && g.nodes[at].Role != flow.RoleSetup {
					return flow.Invalidf("step %s: it waits for %s, which is no setup and comes later", n.Name, name)
				}
				add(at, list.want)
				edges++
			}
		}
		for k := range g.nodes {
			switch role := g.nodes[k].Role; {
			case k == i:
			case n.Role == "" && role == flow.RoleSetup && !seen[k]:
				add(k, wantSuccess)
			case n.Role == flow.RoleTeardown && role != flow.RoleTeardown && !seen[k]:
				add(k, wantEnd)
			}
		}
	}
	if edges > flow.MaxEdges {
		return flow.Invalidf("%d edges, at most %d are allowed", edges, flow.MaxEdges)
	}
	return nil
}

// sort puts each step behind those that it waits for (Kahn), and names a cycle.
func (g *Graph) sort() error {
	open := make([]int, len(g.nodes))
	for i := range g.nodes {
		for range distinct(g.nodes[i].deps) {
			open[i]++
		}
		if open[i] == 0 {
			g.order = append(g.order, i)
		}
	}
	for at := 0; at < len(g.order); at++ {
		for _, next := range g.nodes[g.order[at]].next {
			if open[next]--; open[next] == 0 {
				g.order = append(g.order, next)
			}
		}
	}
	if len(g.order) < len(g.nodes) {
		return flow.Invalidf("the steps wait for each other: %s", strings.Join(g.cycle(open), " -> "))
	}
	for _, i := range g.order {
		above := make([]bool, len(g.nodes))
		for _, d := range g.nodes[i].deps {
			above[d.step] = true
			for k, is := range g.nodes[d.step].above {
				above[k] = above[k] || is
			}
		}
		g.nodes[i].above = above
	}
	return nil
}

func distinct(deps []dep) map[int]bool {
	out := make(map[int]bool, len(deps))
	for _, d := range deps {
		out[d.step] = true
	}
	return out
}

// cycle names the steps of a cycle, each before what waits for it.
func (g *Graph) cycle(open []int) []string {
	at := slices.IndexFunc(open, func(n int) bool { return n > 0 })
	seen := make(map[int]int)
	var path []int
	for {
		if first, again := seen[at]; again {
			path = append(path[first:], at)
			break
		}
		seen[at] = len(path)
		path = append(path, at)
		for _, d := range g.nodes[at].deps {
			if open[d.step] > 0 {
				at = d.step
				break
			}
		}
	}
	slices.Reverse(path)
	names := make([]string, len(path))
	for i, k := range path {
		names[i] = g.nodes[k].Name
	}
	return names
}

// takeValues reads all that names params, items and outputs of other steps.
func (g *Graph) takeValues() error {
	for i := range g.nodes {
		n := &g.nodes[i]
		n.outputs = make(map[string]source.Source, len(n.Outputs))
		for _, name := range sortedKeys(n.Outputs) {
			if err := checkName("output", name); err != nil {
				return flow.Invalidf("step %s: %s", n.Name, strings.TrimPrefix(err.Error(), flow.ErrInvalid.Error()+": "))
			}
			s, err := source.Parse(n.Outputs[name])
			if err != nil {
				return flow.Invalidf("step %s: output %s: %v", n.Name, name, err)
			}
			n.outputs[name] = s
		}
	}
	all := 0
	for i := range g.nodes {
		n := &g.nodes[i]
		count, err := g.takeItems(i)
		if err == nil {
			err = g.takeInputs(i)
		}
		if err == nil {
			err = n.takeProvider()
		}
		if err == nil {
			err = g.takeFiles(i)
		}
		if err == nil && n.Step.When != "" {
			n.when, err = condition.Parse(n.Step.When, names{g, n})
		}
		if err != nil {
			return flow.Invalidf("step %s: %v", n.Name, err)
		}
		if all += count; all > flow.MaxAllInstances {
			return flow.Invalidf("%d instances of all steps, at most %d are allowed", all, flow.MaxAllInstances)
		}
	}
	return nil
}

// takeItems reads each or matrix, and says how many items there are as far as that is
// known.
func (g *Graph) takeItems(i int) (count int, err error) {
	n := &g.nodes[i]
	noItem := func(path []string) error {
		if path[0] == rootItem {
			return fmt.Errorf("${%s}: an item is not known before the items are", strings.Join(path, "."))
		}
		return g.checkRef(i, path)
	}
	if len(n.Each) > 0 {
		v, err := template.Parse(n.Each)
		if err == nil {
			err = v.Refs(noItem)
		}
		if err != nil {
			return 0, fmt.Errorf("each: %w", err)
		}
		if !v.MayBeList() {
			return 0, fmt.Errorf("each: %.64s is no list", n.Each)
		}
		n.each = &v
	}
	for _, name := range sortedKeys(n.Matrix) {
		v, err := template.Parse(n.Matrix[name])
		if err == nil {
			err = checkName("matrix", name)
		}
		if err == nil {
			err = v.Refs(noItem)
		}
		if err != nil {
			return 0, fmt.Errorf("matrix: %w", err)
		}
		n.axes = append(n.axes, axis{name, v})
	}
	if n.each == nil && n.axes == nil {
		return 1, nil
	}
	items, err := n.items(func(path []string) (any, error) {
		if path[0] == rootParams {
			return template.Walk(g.params, path[1:])
		}
		return nil, errLater
	})
	if err == errLater { //nolint:errorlint // it is never wrapped
		return 0, nil
	}
	return len(items), err
}

func (g *Graph) takeInputs(i int) error {
	n := &g.nodes[i]
	n.inputs = make(map[string]template.Value, len(n.Inputs))
	for _, name := range sortedKeys(n.Inputs) {
		v, err := template.Parse(n.Inputs[name])
		if err == nil {
			err = v.Refs(func(path []string) error { return g.checkRef(i, path) })
		}
		if err != nil {
			return fmt.Errorf("input %.64s: %w", name, err)
		}
		n.inputs[name] = v
	}
	return nil
}

// checkRef refuses what step i may not read.
func (g *Graph) checkRef(i int, path []string) error {
	n := &g.nodes[i]
	whole := strings.Join(path, ".")
	switch path[0] {
	case rootParams:
		if len(path) < 2 {
			return nil
		}
		if _, ok := g.params[path[1]]; !ok {
			return fmt.Errorf("${%s}: there is no param %q", whole, path[1])
		}
		return nil
	case rootItem:
		if n.each == nil && n.axes == nil {
			return fmt.Errorf("${%s}: the step has neither each nor matrix", whole)
		}
		if n.axes != nil && len(path) > 1 && !slices.ContainsFunc(n.axes, func(a axis) bool { return a.name == path[1] }) {
			return fmt.Errorf("${%s}: the matrix has no %q", whole, path[1])
		}
		return nil
	case rootRun:
		if len(path) != 2 || path[1] != "id" && path[1] != "time" {
			return fmt.Errorf("${%s}: of a run there are run.id and run.time", whole)
		}
		return nil
	}
	at, ok := g.byName[path[0]]
	if !ok {
		return fmt.Errorf("${%s}: there is no step %q", whole, path[0])
	}
	if !n.above[at] {
		return fmt.Errorf("${%s}: step %s does not come before %s", whole, path[0], n.Name)
	}
	if len(path) < 2 {
		return fmt.Errorf("${%s}: say which output of step %s", whole, path[0])
	}
	if _, ok := g.nodes[at].outputs[path[1]]; !ok {
		return fmt.Errorf("${%s}: step %s has no output %q", whole, path[0], path[1])
	}
	return nil
}

// failureOf is what the failure of a step means.
func (n *node) failureOf() string {
	if n.OnFailure == "" {
		return flow.FailureFail
	}
	return n.OnFailure
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
