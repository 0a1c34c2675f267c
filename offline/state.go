package offline

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/skein-project/skein/coord/join/starts"
	"github.com/skein-project/skein/internal/durable"
)

// Lock creates the state directory if needed and takes its lock, which a running
// daemon holds.
func Lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	lock, err := durable.Lock(dir)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	return lock, nil
}

// LogDir returns where the event log is in a state directory.
func LogDir(stateDir string) string { return filepath.Join(stateDir, starts.LogDir) }

// IndexDir returns where the index of the event log is in a state directory.
func IndexDir(stateDir string) string { return filepath.Join(stateDir, "log-index") }
