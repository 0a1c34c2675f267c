package daemon

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/skein-project/skein/internal/statetest"
	"github.com/skein-project/skein/offline"
)

// TestNoRestartMendsIt: a damaged log, and a token that is none, are final for a service
// manager, which would otherwise start the daemon once a second for ever.
func TestNoRestartMendsIt(t *testing.T) {
	final := func(what string, err error) {
		t.Helper()
		var f interface{ Final() bool }
		if !errors.As(err, &f) || !f.Final() {
			t.Errorf("%s: %v", what, err)
		}
	}
	cfg := statetest.Config(t)
	var log bytes.Buffer
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	final("no token", Run(t.Context(), cfg, RunOptions{Stderr: &log, Join: token}))
	if err := offline.Init(cfg, offline.InitOptions{ClusterName: "blue"}); err != nil {
		t.Fatal(err)
	}
	chain := filepath.Join(offline.LogDir(cfg.StateDir), string(cfg.Node.Name)+".1")
	if err := os.MkdirAll(chain, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"00000000000000000001.seg", "00000000000000000900.seg"} {
		if err := os.WriteFile(filepath.Join(chain, name), bytes.Repeat([]byte("garbage\n"), 1000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	final("a damaged log", Run(t.Context(), cfg, RunOptions{Stderr: &log}))
}
