package condition

import (
	"errors"
	"fmt"

	"github.com/expr-lang/expr/ast"
)

// Limits of what an expression may cost. Whoever evaluates it cannot be interrupted, and is
// the holder among others.
const (
	maxWork = 1 << 20 // operations, of bytes and elements that are compared some at once
	maxSize = 1 << 22 // bytes and elements of what it makes
)

var errWork = errors.New("it is too much work for values as large as these")

// estimate is what evaluating an expression costs at most, by the values that it sees.
type estimate struct {
	env  map[string]any
	here []weighed // what # is, the innermost last
	work float64
	err  error
}

// weighed is a value of an expression, or how large it is.
type weighed struct {
	v    any // nil: not known
	size float64
}

// affordable refuses an expression that is too much work on the values of env.
func affordable(n ast.Node, env map[string]any) error {
	e := &estimate{env: env}
	e.of(n)
	if e.err == nil && e.work > maxWork {
		e.err = errWork
	}
	return e.err
}

// sizeIn is how many elements and bytes of texts a value has.
func sizeIn(v any) float64 {
	switch v := v.(type) {
	case string:
		return 1 + float64(len(v))
	case []any:
		n := 1.0
		for _, one := range v {
			n += sizeIn(one)
		}
		return n
	case map[string]any:
		n := 1.0
		for k, one := range v {
			n += 1 + float64(len(k)) + sizeIn(one)
		}
		return n
	}
	return 1
}

func (e *estimate) fail(err error) weighed {
	if e.err == nil {
		e.err = err
	}
	return weighed{size: 1}
}

// of adds what n costs, and says how large its value is.
func (e *estimate) of(n ast.Node) weighed {
	if e.err != nil {
		return weighed{size: 1}
	}
	if e.work++; e.work > maxWork {
		return e.fail(errWork)
	}
	out := weighed{size: 1}
	switch n := n.(type) {
	case *ast.NilNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
	case *ast.StringNode:
		out.size += float64(len(n.Value))
	case *ast.IdentifierNode:
		out.v = e.env[n.Value]
		out.size = sizeIn(out.v)
	case *ast.PointerNode:
		if n.Name == "" && len(e.here) > 0 {
			out = e.here[len(e.here)-1]
		}
	case *ast.MemberNode:
		out = e.member(n)
	case *ast.ChainNode:
		out = e.of(n.Node)
	case *ast.PredicateNode:
		out = e.of(n.Node)
	case *ast.UnaryNode:
		e.of(n.Node)
	case *ast.BinaryNode:
		out = e.binary(n)
	case *ast.SliceNode:
		out.size = e.of(n.Node).size
		for _, end := range []ast.Node{n.From, n.To} {
			if end != nil {
				e.of(end)
			}
		}
	case *ast.ConditionalNode:
		e.of(n.Cond)
		out.size = max(e.of(n.Exp1).size, e.of(n.Exp2).size)
	case *ast.ArrayNode:
		out.size += e.sum(n.Nodes)
	case *ast.MapNode:
		out.size += e.sum(n.Pairs)
	case *ast.PairNode:
		out.size += e.of(n.Key).size + e.of(n.Value).size
	case *ast.BuiltinNode:
		e.builtin(n)
	default:
		return e.fail(fmt.Errorf("%T is not allowed", n))
	}
	if out.size > maxSize {
		return e.fail(errWork)
	}
	return out
}

func (e *estimate) sum(list []ast.Node) (n float64) {
	for _, one := range list {
		n += e.of(one).size
	}
	return n
}

func (e *estimate) member(n *ast.MemberNode) weighed {
	of := e.of(n.Node)
	e.of(n.Property)
	switch key := n.Property.(type) {
	case *ast.StringNode:
		if m, ok := of.v.(map[string]any); ok {
			return weighed{m[key.Value], sizeIn(m[key.Value])}
		}
	case *ast.IntegerNode:
		if list, ok := of.v.([]any); ok && key.Value >= 0 && key.Value < len(list) {
			return weighed{list[key.Value], sizeIn(list[key.Value])}
		}
	}
	return weighed{size: of.size}
}

func (e *estimate) binary(n *ast.BinaryNode) weighed {
	l, r := e.of(n.Left).size, e.of(n.Right).size
	switch n.Operator {
	case "+":
		e.work += (l + r) / 16
		return weighed{size: l + r}
	case "??":
		return weighed{size: max(l, r)}
	case "matches":
		e.work += 8 * (l + r) // and what it matches may be no constant
	default:
		e.work += (l + r) / 16
	}
	return weighed{size: 1}
}

func (e *estimate) builtin(n *ast.BuiltinNode) {
	if len(n.Arguments) == 0 {
		return
	}
	of := e.of(n.Arguments[0])
	for _, p := range n.Arguments[1:] { // what is held against each element
		times, most := of.size, of.size
		if list, ok := of.v.([]any); ok {
			times, most = float64(len(list)), 1
			for _, one := range list {
				most = max(most, sizeIn(one))
			}
		}
		before := e.work
		e.here = append(e.here, weighed{size: most})
		e.of(p)
		e.here = e.here[:len(e.here)-1]
		e.work = before + max(1, times)*(e.work-before)
	}
}
