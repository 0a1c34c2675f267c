package starts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/internal/durable"
)

// LogDir is the directory of the event log in a state directory.
const LogDir = "log"

// First reports whether no daemon ever ran on a state directory.
func First(dir string) bool {
	if there(durable.Boot.Path(dir)) || there(filepath.Join(dir, "vote.json")) {
		return false
	}
	// A chain was written by a daemon, even if its counter is gone.
	chains, err := filepath.Glob(filepath.Join(dir, LogDir, "*.*", "*.seg"))
	return err == nil && len(chains) == 0
}

func there(name string) bool {
	_, err := os.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// Check reports a counter that is damaged, or gone where there was one.
func Check(dir string, f *durable.File) error {
	_, err := Read(dir, f)
	if errors.Is(err, fs.ErrNotExist) {
		if First(dir) {
			return nil
		}
		return f.Missing(dir)
	}
	return err
}

// Boot returns the number of this start of a state directory, higher
// than of every start before and durable before it is returned. The first
// start has 1, later ones at least the time of day in seconds: a directory
// that came out of a backup would otherwise number its messages as the others
// have seen them already, and be refused for as long as it ran since. So a
// counter that is damaged or gone does no harm; first says that no daemon ever ran.
func Boot(dir string, first bool, now time.Time) (uint64, error) {
	return raise(dir, durable.Boot, first, now)
}

// Epoch returns the number of the next announcement, counted as Boot does.
func Epoch(dir string, now time.Time) (uint64, error) {
	return raise(dir, durable.Epoch, First(dir), now)
}

// raise increments a counter durably, from the second time on to the time of day
// at least.
func raise(dir string, f *durable.File, first bool, now time.Time) (uint64, error) {
	n, err := Read(dir, f)
	switch {
	case durable.IsDamaged(err), errors.Is(err, fs.ErrNotExist) && !first:
		n = 1
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return 0, err
	}
	if n++; n > 1 {
		n = max(n, uint64(max(now.Unix(), 0)))
	}
	return n, write(dir, f, n)
}

// Read returns the number that a counter has.
func Read(dir string, f *durable.File) (uint64, error) {
	b, _, err := f.Read(dir)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(b)), 10, 53)
	if err != nil {
		return 0, f.Damaged(dir, "not a number")
	}
	return n, nil
}

func write(dir string, f *durable.File, n uint64) error {
	return f.Write(dir, []byte(strconv.FormatUint(n, 10)))
}

// RaiseEpoch lets the next announcement have a higher epoch than seen, which
// others hold of this host: its state directory came out of a backup.
func RaiseEpoch(dir string, seen uint64) error {
	n, err := Read(dir, durable.Epoch)
	if err == nil && n < seen || durable.IsDamaged(err) || errors.Is(err, fs.ErrNotExist) {
		err = write(dir, durable.Epoch, seen)
	}
	if err != nil {
		return fmt.Errorf("raise epoch: %w", err)
	}
	return nil
}
