package door

import (
	"path/filepath"
	"testing"
)

// TestPinOfAKey: the pin is that of the key in the file, so it outlives a restart and the
// certificate, and without the file there is another one.
func TestPinOfAKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), keyFile)
	_, first, err := Certificate(path, "n1")
	if err != nil {
		t.Fatal(err)
	}
	if _, again, err := Certificate(path, "n1"); err != nil || again != first {
		t.Errorf("after a restart %s, before %s: %v", again, first, err)
	}
	if _, other, err := Certificate(filepath.Join(t.TempDir(), keyFile), "n1"); err != nil || other == first {
		t.Errorf("another host's is %s too: %v", other, err)
	}
}
