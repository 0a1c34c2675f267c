package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

type pkg struct {
	ImportPath, Dir, Doc      string
	Imports                   []string
	TestImports, XTestImports []string
	GoFiles                   []string
}

func load(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,Doc,Imports,TestImports,XTestImports,GoFiles", "./...")
	cmd.Dir = filepath.Join("..", "..")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
}

func ours(path string) (string, bool) {
	rel, ok := strings.CutPrefix(path, Module+"/")
	return rel, ok
}

func isFree(rel string) bool {
	return slices.ContainsFunc(free, func(f string) bool { return rel == f || strings.HasPrefix(rel, f+"/") })
}

// allowed reports whether package from may import package to; test says that
// the import stands in a test file.
func allowed(from, to string, test bool) bool {
	if isFree(from) || from == to {
		return true
	}
	if isFree(to) {
		return false
	}
	if test && slices.Contains(inTests[from], to) {
		return true
	}
	if _, ok := testOnly[to]; ok {
		_, fromTest := testOnly[from]
		return test || fromTest && slices.Contains(testOnly[from], to)
	}
	if i := slices.Index(vocabulary, from); i >= 0 {
		return slices.Contains(vocabulary[:i], to)
	}
	if slices.Contains(vocabulary, to) {
		return !slices.Contains(leaves, from)
	}
	if slices.Contains(pure, from) {
		// A pure package's tests may bring in other pure packages.
		return slices.Contains(pureDeps[from], to) || test && slices.Contains(pure, to)
	}
	if extra, ok := testOnly[from]; ok {
		return slices.Contains(pure, to) || slices.Contains(extra, to)
	}
	if extra, ok := top[from]; ok {
		if slices.Contains(extra, "*") || slices.Contains(extra, to) {
			_, isTop := top[to]
			return !isTop || slices.Contains(extra, to)
		}
		return test && to != "daemon"
	}
	if extra, ok := rooms[from]; ok {
		return slices.Contains(pure, to) || slices.Contains(leaves, to) || slices.Contains(extra, to)
	}
	if extra, ok := adapters[from]; ok {
		return slices.Contains(pure, to) || slices.Contains(leaves, to) || slices.Contains(extra, to)
	}
	return false
}

func known(rel string) bool {
	_, a := adapters[rel]
	_, b := top[rel]
	_, c := testOnly[rel]
	_, d := rooms[rel]
	return a || b || c || d || slices.Contains(vocabulary, rel) || isFree(rel) || slices.Contains(pure, rel) || slices.Contains(leaves, rel)
}

func TestImports(t *testing.T) {
	for _, p := range load(t) {
		from, ok := ours(p.ImportPath)
		if !ok {
			continue
		}
		if !known(from) {
			t.Errorf("package %s is in no list of internal/archtest/rules.go", from)
			continue
		}
		for _, to := range p.Imports {
			if rel, ok := ours(to); ok && !allowed(from, rel, false) {
				t.Errorf("%s must not import %s", from, rel)
			}
		}
		for _, to := range slices.Concat(p.TestImports, p.XTestImports) {
			if rel, ok := ours(to); ok && !allowed(from, rel, true) {
				t.Errorf("tests of %s must not import %s", from, rel)
			}
		}
	}
}

func TestDocs(t *testing.T) {
	for _, p := range load(t) {
		rel, ok := ours(p.ImportPath)
		if !ok || len(p.GoFiles) == 0 {
			continue
		}
		if strings.HasPrefix(rel, "examples/") || strings.HasPrefix(rel, "cmd/") {
			continue // programs: their main.go carries the comment
		}
		text, err := os.ReadFile(filepath.Join(p.Dir, "doc.go"))
		if err != nil {
			t.Errorf("%s: %v", rel, err)
		} else if !bytes.HasPrefix(text, []byte("// Package ")) {
			t.Errorf("%s/doc.go does not begin with its package comment", rel)
		}
	}
}

func TestFileLength(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if n := bytes.Count(text, []byte("\n")); n > MaxLines {
			t.Errorf("%s has %d lines, at most %d are allowed", path, n, MaxLines)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRules keeps the checker itself honest: the arrows that must never pass.
func TestRules(t *testing.T) {
	for _, arrow := range [][2]string{
		{"lease", "scheduler/plan"},
		{"lease", "coord"},
		{"coord", "mesh"},
		{"scheduler", "eventlog"},
		{"status", "daemon"},
		// The page is served by who starts it: the daemon, and a command.
		{"status", "web"},
		{"backend", "web"},
		{"onion", "web"},
		{"cmd/skein/hosts", "web"},
		{"daemon", "cmd/skein"},
		{"daemon", "internal/sim"},
		{"worker", "scheduler"},
		{"cluster", "lease"},
		{"cluster", "cluster/job"},
		{"cluster/job", "cluster/event"},
		{"internal/durable", "cluster"},
	} {
		if allowed(arrow[0], arrow[1], false) {
			t.Errorf("the rules let %s import %s", arrow[0], arrow[1])
		}
	}
}
