package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/expr-lang/expr/vm"
)

// Limits of an expression.
const (
	maxNodes   = 128
	whenMemory = 1 << 16 // values that an evaluation may make
)

// whenState is what an expression may ask of a step beside its outputs.
const whenState = "state"

// compileWhen reads the expression of step i.
func (g *Graph) compileWhen(i int) (*vm.Program, error) {
	n := &g.nodes[i]
	tree, err := parser.Parse(n.Step.When)
	if err != nil {
		return nil, fmt.Errorf("when: %w", err)
	}
	names := &nameCheck{g: g, n: n}
	ast.Walk(&tree.Node, names)
	if names.err != nil {
		return nil, fmt.Errorf("when: %w", names.err)
	}
	env := map[string]any{rootParams: map[string]any{}, rootRun: map[string]any{}}
	for k, is := range n.above {
		if is {
			env[g.nodes[k].Name] = map[string]any{}
		}
	}
	p, err := expr.Compile(
		n.Step.When, expr.Env(env), expr.AsBool(), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins(),
		expr.EnableBuiltin("len"), expr.EnableBuiltin("any"), expr.EnableBuiltin("all"),
	)
	if err != nil {
		return nil, fmt.Errorf("when: %w", err)
	}
	return p, nil
}

// nameCheck refuses names that do not exist: the compiler does not look into maps.
type nameCheck struct {
	g   *Graph
	n   *node
	err error
}

// Visit implements ast.Visitor.
func (c *nameCheck) Visit(node *ast.Node) {
	if c.err != nil {
		return
	}
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		if n.Value == rootParams || n.Value == rootRun {
			return
		}
		at, ok := c.g.byName[n.Value]
		switch {
		case !ok:
			c.err = fmt.Errorf("there is no %q, have: params, run and the steps before this one", n.Value)
		case !c.n.above[at]:
			c.err = fmt.Errorf("step %s does not come before %s", n.Value, c.n.Name)
		}
	case *ast.MemberNode:
		root, ok := n.Node.(*ast.IdentifierNode)
		if !ok {
			return
		}
		prop, ok := n.Property.(*ast.StringNode)
		if !ok {
			c.err = fmt.Errorf("%s[...]: say the name itself", root.Value)
			return
		}
		c.err = c.member(root.Value, prop.Value)
	}
}

func (c *nameCheck) member(root, name string) error {
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
		return nil // which the identifier says
	}
	if _, ok := c.g.nodes[at].outputs[name]; !ok && name != whenState {
		return fmt.Errorf("step %s has no output %q", root, name)
	}
	return nil
}

var errNull = errors.New("a value in it is null")

// evaluate runs the expression of a step.
func evaluate(p *vm.Program, env map[string]any) (yes bool, err error) {
	machine := vm.VM{MemoryBudget: whenMemory}
	out, err := machine.Run(p, env)
	if err != nil {
		return false, fmt.Errorf("when: %s", firstLine(err.Error()))
	}
	yes, ok := out.(bool)
	if !ok {
		if out == nil {
			return false, fmt.Errorf("when: %w", errNull)
		}
		return false, fmt.Errorf("when: %.64s is neither true nor false", show(out))
	}
	return yes, nil
}

func firstLine(s string) string {
	if i := slices.Index([]byte(s), '\n'); i >= 0 {
		return s[:i]
	}
	return s
}

// plainNumbers turns the numbers of a value into those that expressions compare.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return int(n)
		}
		f, _ := v.Float64()
		return f
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plainNumbers(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = plainNumbers(v[k])
		}
		return out
	}
	return v
}
