package archtest

import (
	"maps"
	"runtime"
	"slices"
	"testing"
)

// TestRulesAreUsed: an arrow that the rules allow and nobody draws is an exception for
// nothing. What only tests import stands in inTests.
func TestRulesAreUsed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("files for Linux draw some of the arrows")
	}
	imports, inTest := map[string][]string{}, map[string][]string{}
	for _, p := range load(t) {
		from, _ := ours(p.ImportPath)
		for _, to := range p.Imports {
			rel, _ := ours(to)
			imports[from] = append(imports[from], rel)
		}
		for _, to := range slices.Concat(p.TestImports, p.XTestImports) {
			rel, _ := ours(to)
			inTest[from] = append(inTest[from], rel)
		}
	}
	for _, c := range []struct {
		name  string
		rules map[string][]string
		drawn map[string][]string
	}{
		{"pureDeps", pureDeps, imports}, {"adapters", adapters, imports}, {"rooms", rooms, imports}, {"top", top, imports}, {"inTests", inTests, inTest},
	} {
		for _, from := range slices.Sorted(maps.Keys(c.rules)) {
			for _, to := range c.rules[from] {
				if to != "*" && !slices.Contains(c.drawn[from], to) {
					t.Errorf("%s lets %s import %s, which it does not", c.name, from, to)
				}
			}
		}
	}
}
