package daemon

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestProtocolsHaveLanes: whoever serves streams of other hosts says how urgent they are:
// each handler goes through Stream.
func TestProtocolsHaveLanes(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) != 2 || methodOf(call) != "Handle" || !strings.HasSuffix(receiverOf(call), "svc") {
				return true
			}
			found++
			if wrapped, ok := call.Args[1].(*ast.CallExpr); !ok || methodOf(wrapped) != "Stream" {
				t.Errorf("%s: a protocol without a lane", set.Position(call.Pos()))
			}
			return true
		})
	}
	if found < 5 {
		t.Errorf("%d protocols found", found)
	}
}

// methodOf is the name of the method that is called.
func methodOf(call *ast.CallExpr) string {
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
		return sel.Sel.Name
	}
	return ""
}

// receiverOf is the last name of that on which it is called.
func receiverOf(call *ast.CallExpr) string {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	switch x := sel.X.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}
