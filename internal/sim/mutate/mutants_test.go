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
