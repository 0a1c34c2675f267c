package skeinwasm

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const program = `package main

import (
	"os"

	"IMPORT"
)

func main() {
	os.Exit(skeinwasm.Main(func(c skeinwasm.Chunk, _ []byte) (map[string]skeinwasm.Metric, error) {
		m := skeinwasm.Metric{Sketch: skeinwasm.NewSketch()}
		for i := range c.Iterations {
			m.Add(skeinwasm.NewStream(c.Seed, 0).Uniform(c.Offset + i))
		}
		return map[string]skeinwasm.Metric{"x": m}, nil
	}))
}
`

// outside is a module of somebody else, with the job as its program.
func outside(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(strings.Replace(program, "IMPORT", path, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// try runs a line of the README in dir, where the repository is at root.
func try(t *testing.T, dir, root, line string) {
	t.Helper()
	cmd := exec.Command("sh", "-c", strings.ReplaceAll(line, "../skein", root))
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", line, err, out)
	}
}

// TestOutside: what the README of the examples tells people works outside of this
// repository, where no proxy has its module.
func TestOutside(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```\n(go mod init.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("the README does not say how to begin")
	}
	t.Run("clone", func(t *testing.T) {
		dir := outside(t, "github.com/skein-project/skein/examples/skeinwasm")
		for line := range strings.Lines(string(block[1])) {
			try(t, dir, root, strings.TrimSpace(line))
		}
		if info, err := os.Stat(filepath.Join(dir, "myjob.wasm")); err != nil || info.Size() == 0 {
			t.Errorf("no module was built: %v", err)
		}
	})
	t.Run("copy", func(t *testing.T) {
		dir := outside(t, "myjob/skeinwasm")
		for line := range strings.Lines("go mod init myjob\nmkdir skeinwasm\ncp ../skein/examples/skeinwasm/skeinwasm.go ../skein/examples/skeinwasm/sketch.go skeinwasm\n" +
			"go mod tidy\nGOOS=wasip1 GOARCH=wasm go build -o myjob.wasm .") {
			try(t, dir, root, strings.TrimSpace(line))
		}
	})
}
