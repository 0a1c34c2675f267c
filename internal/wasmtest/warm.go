package wasmtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// compiledDir is where a host and an outside worker keep modules compiled, in their
// directory; whole is the file there that is written when a module is.
const (
	compiledDir = "wasm-cache"
	whole       = "sums.json"
)

// Warm gives the directory of a host or of an outside worker that starts the modules
// that those of earlier tests have compiled, and keeps at the end of the test what
// this one has. A module of Go takes four seconds of a processor, and each of the
// hundred hosts of the tests had to compile the same two.
func Warm(tb testing.TB, dir string) {
	tb.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		return // compiles
	}
	shared, own := filepath.Join(cache, "skein-test-modules"), filepath.Join(dir, compiledDir)
	adopt(shared, own)
	tb.Cleanup(func() { adopt(own, shared) })
}

// keepFor is for how long a module is kept for other tests.
const keepFor = 24 * time.Hour

// Modules is a directory with the modules that earlier tests have compiled, for a job
// without a host.
func Modules(tb testing.TB) string {
	tb.Helper()
	dir := tb.TempDir()
	Warm(tb, dir)
	return filepath.Join(dir, compiledDir)
}

// adopt links the modules that to lacks, or copies them to another file system, each at
// once. Nobody writes to a module that is whole. What cannot be had is compiled; what is
// damaged as well, as a host checks what it finds.
func adopt(from, to string) {
	modules, err := filepath.Glob(filepath.Join(from, "*", whole))
	if err != nil || len(modules) == 0 || os.MkdirAll(to, 0o700) != nil {
		return
	}
	for _, sums := range modules {
		module := filepath.Dir(sums)
		if old, err := os.Stat(sums); err != nil || time.Since(old.ModTime()) > keepFor {
			_ = os.RemoveAll(module) // most likely nobody's any more: each change of a source is another module
			continue
		}
		if _, err := os.Stat(filepath.Join(to, filepath.Base(module))); err == nil {
			continue
		}
		beside, err := os.MkdirTemp(to, ".new-")
		if err != nil {
			return
		}
		if link(module, beside) != nil && os.CopyFS(beside, os.DirFS(module)) != nil || os.Rename(beside, filepath.Join(to, filepath.Base(module))) != nil {
			_ = os.RemoveAll(beside) // of another test, which was first
		}
	}
}

// link makes the directory to one with the files of from, which take no more space.
func link(from, to string) error {
	return fs.WalkDir(os.DirFS(from), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil || name == ".":
			return err
		case e.IsDir():
			return os.Mkdir(filepath.Join(to, name), 0o700)
		default:
			return os.Link(filepath.Join(from, name), filepath.Join(to, name))
		}
	})
}
