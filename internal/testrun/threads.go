package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
)

// goPackage is what `go list -json` says of a package.
type goPackage struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
}

// oneThread returns the packages of all in which the race detector has nothing to
// find. Neither they, their tests, nor what of all they import starts a goroutine,
// has a channel, or calls what runs a function beside its caller; they import nothing
// that does so for them, no unsafe memory (the race detector also checks how that is
// used), and nothing of others, which is not looked at. What the rule does not know
// for sure runs with the race detector. read returns the text of a file.
func oneThread(all []goPackage, read func(file string) ([]byte, error)) ([]string, error) {
	w := walk{read: read, packages: map[string]goPackage{}, threads: map[string]bool{}}
	for _, p := range all {
		w.packages[p.ImportPath] = p
	}
	var out []string
	for _, p := range all {
		if len(p.TestGoFiles)+len(p.XTestGoFiles) == 0 {
			continue
		}
		p.GoFiles = slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles)
		p.Imports = slices.Concat(p.Imports, p.TestImports, p.XTestImports)
		found, err := w.look(p)
		if err != nil {
			return nil, err
		}
		if !found {
			out = append(out, p.ImportPath)
		}
	}
	return out, nil
}

type walk struct {
	read     func(file string) ([]byte, error)
	packages map[string]goPackage
	threads  map[string]bool // of a package without its tests, once it was looked at
}

// look reports whether something may run beside something else in p.
func (w *walk) look(p goPackage) (bool, error) {
	for _, i := range p.Imports {
		if i == p.ImportPath { // of its own tests
			continue
		}
		found := beyond(i)
		if dep, ours := w.packages[i]; ours {
			known, looked := w.threads[i]
			if !looked {
				var err error
				if known, err = w.look(dep); err != nil {
					return false, err
				}
				w.threads[i] = known
			}
			found = known
		}
		if found {
			return true, nil
		}
	}
	for _, name := range p.GoFiles {
		text, err := w.read(filepath.Join(p.Dir, name))
		if err != nil {
			return false, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			return false, fmt.Errorf("look for goroutines: %w", err)
		}
		if starts(file) {
			return true, nil
		}
	}
	return false, nil
}

// besideImports lists packages of the standard library that run goroutines for who
// imports them, or are of use only to who has some.
var besideImports = []string{"C", "context", "database/sql", "expvar", "net", "os/exec", "os/signal", "plugin", "sync", "sync/atomic", "testing/synctest", "unsafe"}

// beyond reports whether an imported package is not known to run on the thread of
// who calls it.
func beyond(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	if strings.HasPrefix(path, "net/") {
		return path != "net/netip" && path != "net/url"
	}
	return strings.Contains(first, ".") || slices.Contains(besideImports, path)
}

// callBeside lists functions and methods that have another goroutine call what they
// are given, whoever has them.
var callBeside = []string{"AddCleanup", "AfterFunc", "Parallel", "Pull", "Pull2", "RunParallel", "SetFinalizer"}

// starts reports whether a file may have more than one goroutine at work.
func starts(file *ast.File) bool {
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
			found = true
		case *ast.SelectorExpr:
			found = found || slices.Contains(callBeside, n.Sel.Name)
		}
		return !found
	})
	return found
}
