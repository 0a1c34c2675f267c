package offline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skein-project/skein/internal/statetest"
	"github.com/skein-project/skein/mesh/device"
)

// TestRootKeyMoves exports the root key, takes it away and puts it back.
func TestRootKeyMoves(t *testing.T) {
	cfg := statetest.Config(t)
	if err := Init(cfg, InitOptions{ClusterName: "blue"}); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "root.json")
	if err := ExportRoot(cfg, out, true); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	var advised interface{ Hint() string }
	if err := ExportRoot(cfg, out+"2", false); !errors.As(err, &advised) {
		t.Errorf("a second time: %v, want an error with a hint", err)
	}
	if err := ImportRoot(cfg, out); err != nil {
		t.Fatal(err)
	}
	if err := ExportRoot(cfg, out, false); !errors.Is(err, os.ErrExist) {
		t.Errorf("over a file: %v", err)
	}
	cfg.Mesh.Interface = "skeindoctor0"
	// Nothing is removed under a running daemon.
	lock, err := Lock(cfg.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := CleanupNetwork(t.Context(), cfg); !errors.As(err, &advised) || !strings.Contains(advised.Hint(), "stop it first") {
		t.Errorf("cleanup under a daemon: %v", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	// A machine without any device left behind has nothing to clean.
	if gone, err := CleanupNetwork(t.Context(), cfg); gone || err != nil && !errors.Is(err, device.ErrPermission) {
		t.Errorf("cleanup: %v %v", gone, err)
	}
}
