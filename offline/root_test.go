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
	// Whatever is wrong with an import, the error says what next.
	other, none := statetest.Config(t), statetest.Config(t)
	if err := Init(other, InitOptions{ClusterName: "red"}); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "root.json")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"no file", ImportRoot(cfg, out+"3"), "skein root export --out FILE"},
		{"half a file", ImportRoot(cfg, file(string(whole[:len(whole)/2]))), "skein root export --out FILE"},
		{"another file", ImportRoot(cfg, file("{}")), "skein root export --out FILE"},
		{"another key", ImportRoot(cfg, file(strings.Replace(string(whole), `"root_key": "`, `"root_key": "AAAA`, 1))), "skein root export --out FILE"},
		{"another cluster", ImportRoot(other, out), "member of its own"},
		{"no member", ImportRoot(none, out), "--state-dir"},
	} {
		if !errors.As(c.err, &advised) || !strings.Contains(advised.Hint(), c.want) {
			t.Errorf("%s: %v, want a hint with %q", c.name, c.err, c.want)
		}
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
