package flow

import "fmt"

// whenState is what an expression may ask of a step beside its outputs.
const whenState = "state"

// names are what the expression of a step may name.
type names struct {
	g *Graph
	n *node
}

// Root implements condition.Names.
func (c names) Root(name string) error {
	if name == rootParams || name == rootRun {
		return nil
	}
	at, ok := c.g.byName[name]
	switch {
	case !ok:
		return fmt.Errorf("there is no %q, have: params, run and the steps before this one", name)
	case !c.n.above[at]:
		return fmt.Errorf("step %s does not come before %s", name, c.n.Name)
	}
	return nil
}

// Member implements condition.Names.
func (c names) Member(root, name string) error {
	switch root {
	case rootParams:
		if _, ok := c.g.params[name]; !ok {
			return fmt.Errorf("there is no param %q", name)
		}
		return nil
	case rootRun:
		if name != "id" && name != "time" {
			return fmt.Errorf("of a run there are run.id and run.time")
		}
		return nil
	}
	at, ok := c.g.byName[root]
	if !ok {
		return nil
	}
	if _, ok := c.g.nodes[at].outputs[name]; !ok && name != whenState {
		return fmt.Errorf("step %s has no output %q", root, name)
	}
	return nil
}

// Roots implements condition.Names.
func (c names) Roots() []string {
	out := []string{rootParams, rootRun}
	for k, is := range c.n.above {
		if is {
			out = append(out, c.g.nodes[k].Name)
		}
	}
	return out
}
