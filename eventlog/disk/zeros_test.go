package disk

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// TestZerosStayAhead writes a file in groups of all sizes while its room is
// zeroed: no byte may be lost, and a file that was cut does not grow again.
func TestZerosStayAhead(t *testing.T) {
	const step = 1 << 20
	name := filepath.Join(t.TempDir(), "file")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	f := &osFile{File: file}
	defer f.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	var want []byte
	allocated := 0
	for len(want) < 6*step {
		group := bytes.Repeat([]byte{1 + byte(rng.IntN(255))}, 1+rng.IntN(20_000))
		for len(want)+len(group) > allocated {
			if err := file.Truncate(int64(allocated + step)); err != nil {
				t.Fatal(err)
			}
			// From the very front, so that both want the same bytes.
			f.zeros.begin(name, int64(allocated), int64(allocated+step))
			allocated += step
		}
		if n, err := f.WriteAt(group, int64(len(want))); n != len(group) || err != nil {
			t.Fatal(n, err)
		}
		want = append(want, group...)
		if rng.IntN(4) == 0 {
			runtime.Gosched()
		}
	}
	cut := int64(len(want))
	if err := f.Truncate(cut); err != nil {
		t.Fatal(err)
	}
	if err := f.zeros.failed(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes, want %d, equal %t, %v", len(got), len(want), bytes.Equal(got, want), err)
	}
}

// TestZerosThatFail tells whoever syncs the file next.
func TestZerosThatFail(t *testing.T) {
	dir := t.TempDir()
	file, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	f := &osFile{File: file}
	defer f.Close()
	f.zeros.begin(filepath.Join(dir, "missing"), 0, zeroMin)
	f.zeros.stop()
	if err := f.Sync(); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("sync: %v, want what became of the zeros", err)
	}
}
