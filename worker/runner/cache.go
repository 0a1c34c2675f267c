package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/tetratelabs/wazero"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/durable"
)

// moduleCache is the directory in which one module is kept compiled. Beside what
// wazero writes there is a file with the checksums of it: wazero checks only the
// code, and damage elsewhere in a file has every attempt of a job fail.
type moduleCache struct{ dir string }

// cacheSums has the checksum of each compiled file, by its path in the directory.
var cacheSums = durable.File{Name: "sums.json", What: "the checksums of a compiled module", Limit: 1 << 20}

// temporary ends the names of files that are being written.
const temporary = ".tmp"

func (r *runner) cacheOf(module cluster.Hash) moduleCache {
	if r.setup.CacheDir == "" {
		return moduleCache{}
	}
	return moduleCache{filepath.Join(r.setup.CacheDir, module.String())}
}

// open removes what is damaged, or is not known to be whole, and opens the rest. It
// is compiled again then.
func (c moduleCache) open() (wazero.CompilationCache, error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return nil, fmt.Errorf("open module cache: %w", err)
	}
	want := c.known()
	have, err := c.files()
	if err != nil {
		return nil, fmt.Errorf("open module cache: %w", err)
	}
	for name, sum := range have {
		if want[name] != sum {
			_ = os.Remove(filepath.Join(c.dir, name)) // what stays is noticed by wazero, or not at all
		}
	}
	cache, err := wazero.NewCompilationCacheWithDir(c.dir)
	if err != nil {
		return nil, fmt.Errorf("open module cache: %w", err)
	}
	return cache, nil
}

// seal notes the checksums of what was compiled. Where that fails, the module is
// compiled again by the next child.
func (c moduleCache) seal() {
	have, err := c.files()
	if err == nil && !maps.Equal(have, c.known()) {
		_ = cacheSums.WriteJSON(c.dir, have) // see above
	}
}

// drop removes the module. What stays fails again, visibly.
func (c moduleCache) drop() { _ = os.RemoveAll(c.dir) }

func (c moduleCache) known() map[string]string {
	var want map[string]string
	if _, err := cacheSums.ReadJSON(c.dir, &want); err != nil {
		return nil
	}
	return want
}

// files returns the checksums of the files that are there.
func (c moduleCache) files() (map[string]string, error) {
	have := map[string]string{}
	err := filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == cacheSums.Name || strings.Contains(d.Name(), temporary) {
			return err
		}
		name, err := filepath.Rel(c.dir, path)
		if err != nil {
			return err
		}
		have[name], err = sumOf(path)
		return err
	})
	return have, err
}

func sumOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
