package archtest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

var drawMap = flag.Bool("map", false, "print the packages with their sizes and imports")

// TestMap prints what ARCHITECTURE.md draws, for `make map`: a row per package
// with its product lines, its largest type, its largest struct that holds state,
// and the packages of this module that it imports.
func TestMap(t *testing.T) {
	pkgs := load(t)
	if len(pkgs) == 0 {
		t.Fatal("go list knows no package")
	}
	if !*drawMap {
		return
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PACKAGE\tLINES\tLARGEST TYPE\tLARGEST STRUCT\tIMPORTS")
	for _, p := range pkgs {
		from, ok := ours(p.ImportPath)
		if !ok || len(p.GoFiles) == 0 || isFree(from) {
			continue
		}
		s, err := measure(filepath.Join("..", "..", from), isWire(from))
		if err != nil {
			t.Fatal(err)
		}
		var imports []string
		for _, to := range p.Imports {
			if rel, ok := ours(to); ok && !slices.Contains(vocabulary, rel) {
				imports = append(imports, rel)
			}
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", from, s.lines, largest(s.methods), largest(s.fields), strings.Join(imports, " "))
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

// largest is the name with the highest count, and the count.
func largest(counts map[string]int) string {
	name := ""
	for n, count := range counts {
		if name == "" || count > counts[name] || count == counts[name] && n < name {
			name = n
		}
	}
	if name == "" {
		return "-"
	}
	return fmt.Sprintf("%s %d", name, counts[name])
}
