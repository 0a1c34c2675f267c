package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMutantsApply keeps the table true without running it: every old text
// is found exactly once and is really replaced.
func TestMutantsApply(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants() {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", m.file))
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), m.old); n != 1 || m.old == m.new || names[m.name] {
			t.Errorf("%s: old text found %d times in %s", m.name, n, m.file)
		}
		names[m.name] = true
	}
}

// TestExhaustiveSearchNotices: a search that finds nothing must be able to.
func TestExhaustiveSearchNotices(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the lease core once for each mutant")
	}
	want := map[string]bool{
		"no restart quarantine": true, "no guard": true, "no drift margin": true,
	}
	root := filepath.Join("..", "..", "..")
	root, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants() {
		if !want[m.name] {
			continue
		}
		delete(want, m.name)
		list, err := overlay(root, t.TempDir(), m)
		if err != nil {
			t.Fatal(err)
		}
		out, err := goTest(root, list, "./lease", "-run", "^TestExhaustive$")
		if err == nil || !strings.Contains(string(out), "believe to hold") && !strings.Contains(string(out), "I1 ") && !strings.Contains(string(out), "I3 ") && !strings.Contains(string(out), "I5 ") {
			t.Errorf("%s is not noticed (%v):\n%s", m.name, err, tail(out))
		}
	}
	if len(want) > 0 {
		t.Errorf("no mutants %v", want)
	}
}
