package starts

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/durable"
)

// TestBoot: numbers rise whatever becomes of the file, and a start that is not the
// first is never taken for it.
func TestBoot(t *testing.T) {
	dir := t.TempDir()
	boot := func(now int64) uint64 {
		t.Helper()
		n, err := Boot(dir, First(dir), time.Unix(now, 0))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if !First(dir) {
		t.Fatal("an empty directory was started")
	}
	for want := uint64(1); want <= 3; want++ {
		if n := boot(2); n != want {
			t.Fatalf("boot %d, want %d", n, want)
		}
	}
	// A directory out of a backup does not repeat the numbers of that time.
	const day = 1_700_000_000
	if n := boot(day); n != day {
		t.Fatalf("boot %d, want the time of day", n)
	}
	if First(dir) {
		t.Error("a directory with a counter is fresh")
	}
	if err := os.WriteFile(durable.Boot.Path(dir), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(dir, durable.Boot); !durable.IsDamaged(err) {
		t.Errorf("damaged counter: %v", err)
	}
	if n := boot(day + 1); n != day+1 {
		t.Errorf("boot %d after damage, want the time of day", n)
	}
	if n := boot(0); n != day+2 {
		t.Errorf("boot %d with the clock behind, want %d", n, day+2)
	}
	chain := filepath.Join(dir, LogDir, "n1.1")
	if err := os.MkdirAll(chain, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(chain, "1.seg"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(durable.Boot.Path(dir)); err != nil {
		t.Fatal(err)
	}
	if err := Check(dir, durable.Boot); !durable.IsDamaged(err) || First(dir) {
		t.Errorf("missing counter: %v", err)
	}
	if n := boot(day + 9); n != day+9 {
		t.Errorf("boot %d after the loss, want the time of day", n)
	}
}
