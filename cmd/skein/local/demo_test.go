package local

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPi: the demo finds its module where the program was built, and where it was
// installed.
func TestPi(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	if got, want := pi(bin), filepath.Join(bin, "examples", "pi.wasm"); got != want {
		t.Errorf("nowhere: %s, want %s", got, want)
	}
	for _, there := range []string{"share/skein/examples/pi.wasm", "bin/examples/pi.wasm"} {
		want := filepath.Join(dir, there)
		if err := os.MkdirAll(filepath.Dir(want), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(want, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := pi(bin); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
