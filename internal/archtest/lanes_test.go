package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"testing"
)

// TestEachProtocolHasALane: what the daemon serves to other hosts goes through
// relief.Stream, which wants to know how urgent it is.
func TestEachProtocolHasALane(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "daemon", "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	served := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !calls(call, "svc", "Handle") || len(call.Args) != 2 {
				return true
			}
			served++
			if by, ok := call.Args[1].(*ast.CallExpr); !ok || !calls(by, "relief", "Stream") {
				t.Errorf("%s serves a protocol without a lane: wrap its handler in relief.Stream", filepath.Base(name))
			}
			return true
		})
	}
	if served < 5 {
		t.Errorf("%d protocols are served, at least 5 are known: does this test still find them?", served)
	}
}

// calls reports whether a call is of a method of a field or variable.
func calls(c *ast.CallExpr, of, method string) bool {
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != method {
		return false
	}
	switch x := sel.X.(type) {
	case *ast.Ident:
		return x.Name == of
	case *ast.SelectorExpr:
		return x.Sel.Name == of
	}
	return false
}
