package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wholeConfig lists the packages that may handle a whole configuration: those
// that load it, and those that work on a state directory without a daemon. In
// the daemon only what starts it and reloads it does.
var wholeConfig = []string{"config", "cmd/skein", "doctor", "internal/demo", "internal/statetest", "offline"}

// TestReloadableKeysHaveOneAccessor lets no room of the running daemon have a
// config.Config: its Live half is a copy that no reload reaches. Rooms get
// config.Fixed, and what a reload changes by a function.
func TestReloadableKeysHaveOneAccessor(t *testing.T) {
	inDaemon := []string{"ground.go", "reload.go", "run.go"}
	for _, p := range load(t) {
		rel, ok := ours(p.ImportPath)
		if !ok || isFree(rel) || slices.ContainsFunc(wholeConfig, func(w string) bool { return rel == w || strings.HasPrefix(rel, w+"/") }) {
			continue
		}
		for _, name := range p.GoFiles {
			if rel == "daemon" && slices.Contains(inDaemon, name) {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Config" {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "config" && importsOurs(file, "config") {
						t.Errorf("%s/%s has a config.Config, whose Live half no reload changes: take config.Fixed, and a function for what is live", rel, name)
					}
				}
				return true
			})
		}
	}
}

func importsOurs(file *ast.File, rel string) bool {
	return slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"`+Module+"/"+rel+`"` })
}
