package tool

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFind(t *testing.T) {
	base := t.TempDir()
	below := filepath.Join(base, "some", "where")
	tools := filepath.Join(base, "bin", "tools")
	for _, dir := range []string{below, tools} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(below)
	t.Setenv("PATH", "")
	path := filepath.Join(tools, "thing")
	if got, err := Find("thing"); err == nil {
		t.Errorf("what is nowhere is at %s", got)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Find("thing"); err == nil {
		t.Errorf("a file that is no program is at %s", got)
	}
	if err := os.Chmod(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := Find("thing"); err != nil || got != path {
		t.Errorf("%q, %v, want %s", got, err, path)
	}
	t.Setenv("PATH", tools)
	t.Chdir("/")
	if got, err := Find("thing"); err != nil || got != path {
		t.Errorf("in the search path: %q, %v", got, err)
	}
}
