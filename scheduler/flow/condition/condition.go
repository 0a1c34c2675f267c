package condition

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// functions are those of expressions.
var functions = []string{"len", "any", "all"}

// Names are what an expression may name.
type Names interface {
	// Root refuses what is no name of its own, Member what is not in one that is; of a name
	// that Root refuses it says nothing.
	Root(name string) error
	Member(root, name string) error
	// Roots are those of its own.
	Roots() []string
}

// Expression is one that makes sense.
type Expression struct {
	program *vm.Program
	tree    ast.Node // as it is written
}

// Parse reads an expression.
func Parse(text string, names Names) (*Expression, error) {
	tree, err := parser.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("when: %w", err)
	}
	check := &checker{names: names}
	ast.Walk(&tree.Node, check)
	if check.err != nil {
		return nil, fmt.Errorf("when: %w", check.err)
	}
	env := make(map[string]any)
	for _, name := range names.Roots() {
		env[name] = map[string]any{}
	}
	options := []expr.Option{expr.Env(env), expr.AsBool(), expr.MaxNodes(maxNodes), expr.DisableAllBuiltins()}
	for _, f := range functions {
		options = append(options, expr.EnableBuiltin(f))
	}
	p, err := expr.Compile(text, options...)
	if err != nil {
		return nil, fmt.Errorf("when: %w", err)
	}
	return &Expression{p, tree.Node}, nil
}

// checker refuses names that do not exist, as the compiler does not look into maps, and what
// could take for ever.
type checker struct {
	names Names
	err   error
}

// Visit implements ast.Visitor.
func (c *checker) Visit(node *ast.Node) {
	if c.err != nil {
		return
	}
	switch n := (*node).(type) {
	case *ast.CallNode:
		c.err = fmt.Errorf("no function is allowed but %s", strings.Join(functions, ", "))
	case *ast.BuiltinNode:
		if !slices.Contains(functions, n.Name) { // what takes a predicate cannot be switched off
			c.err = fmt.Errorf("%s: no function is allowed but %s", n.Name, strings.Join(functions, ", "))
		}
	case *ast.VariableDeclaratorNode, *ast.SequenceNode:
		c.err = errors.New("neither let nor several expressions are allowed") // values could grow without end
	case *ast.BinaryNode:
		if n.Operator == ".." {
			c.err = errors.New("a .. b is not allowed") // its length is seen by nobody
		}
	case *ast.IdentifierNode:
		c.err = c.names.Root(n.Value)
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
		c.err = c.names.Member(root.Value, prop.Value)
	}
}

var errNull = errors.New("a value in it is null")

// Evaluate says whether the expression is true of the values in env.
func (e *Expression) Evaluate(env map[string]any) (yes bool, err error) {
	if err := affordable(e.tree, env); err != nil {
		return false, fmt.Errorf("when: %w", err)
	}
	machine := vm.VM{MemoryBudget: whenMemory}
	out, err := machine.Run(e.program, env)
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		return false, fmt.Errorf("when: %s", text)
	}
	yes, ok := out.(bool)
	if !ok {
		if out == nil {
			return false, fmt.Errorf("when: %w", errNull)
		}
		return false, fmt.Errorf("when: %.64v is neither true nor false", out)
	}
	return yes, nil
}

// Plain turns the numbers of a value into those that expressions compare.
func Plain(v any) any {
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
			out[i] = Plain(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = Plain(v[k])
		}
		return out
	}
	return v
}
