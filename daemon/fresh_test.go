package daemon

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/internal/statetest"
	"github.com/skein-project/skein/offline"
)

// TestFreshHostStaysFresh: what fails before a host is a member leaves no
// state directory behind.
func TestFreshHostStaysFresh(t *testing.T) {
	cfg := statetest.Config(t)
	if err := os.Remove(cfg.StateDir); err != nil {
		t.Fatal(err)
	}
	cfg.Mesh.Interface = "sktfresh0"
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(token, 0o644); err != nil { //nolint:gosec // that is what is tested
		t.Fatal(err)
	}
	untouched := func(what string) {
		t.Helper()
		if _, err := os.Stat(cfg.StateDir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s left a state directory: %v", what, err)
		}
	}
	var log bytes.Buffer
	if err := Run(t.Context(), cfg, RunOptions{Stderr: &log}); !errors.Is(err, join.ErrNotInitialised) {
		t.Errorf("run: %v", err)
	}
	untouched("run")
	if err := Run(t.Context(), cfg, RunOptions{Stderr: &log, Join: token}); err == nil {
		t.Error("joined by garbage")
	}
	untouched("run --join")
	if !strings.Contains(log.String(), token) {
		t.Errorf("no word about a token that others may read: %q", log.String())
	}
	gone, err := offline.CleanupNetwork(t.Context(), cfg)
	if gone {
		t.Errorf("something removed where nothing was: %v", err)
	}
	untouched("net cleanup")

	log.Reset()
	if err := os.Mkdir(cfg.StateDir, 0o755); err != nil { //nolint:gosec // that is what is tested
		t.Fatal(err)
	}
	if err := Run(t.Context(), cfg, RunOptions{Stderr: &log}); !errors.Is(err, join.ErrNotInitialised) || !strings.Contains(log.String(), "others may read") {
		t.Errorf("open state directory: %v, %q", err, log.String())
	}
}
