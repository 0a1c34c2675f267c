package suite

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Header says where and when the figures were taken.
type Header struct {
	Date       time.Time `json:"date"`
	CPU        string    `json:"cpu"`
	CPUs       int       `json:"cpus"`
	Kernel     string    `json:"kernel"`
	Go         string    `json:"go"`
	LoadBefore string    `json:"load_before"`
	LoadAfter  string    `json:"load_after"`
	// FsyncMS is the median time of writing 4 KiB and syncing, where the
	// stores of all sides lie.
	FsyncMS  float64           `json:"fsync_ms"`
	Versions map[string]string `json:"versions"`
}

// NewHeader notes what this machine is, before the run; dir is where the stores
// lie.
func NewHeader(dir string) (Header, error) {
	h := Header{
		Date: time.Now().UTC().Truncate(time.Second), CPU: cpuModel(), CPUs: runtime.NumCPU(), Kernel: line("/proc/sys/kernel/osrelease"),
		Go: runtime.Version(), LoadBefore: Load(), Versions: map[string]string{},
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if !peerModule(d.Path) {
				continue
			}
			if d.Replace != nil {
				d = d.Replace
			}
			h.Versions[d.Path] = d.Version
		}
	}
	var err error
	h.FsyncMS, err = fsyncTime(dir)
	return h, err
}

// peerModule says whether what a row compares with comes from the module.
func peerModule(path string) bool {
	return strings.HasPrefix(path, "github.com/hashicorp/") ||
		slices.Contains([]string{
			"github.com/cockroachdb/pebble/v2", "go.etcd.io/bbolt", "modernc.org/sqlite", "github.com/hibiken/asynq",
			"github.com/redis/go-redis/v9", "github.com/riverqueue/river", "github.com/nats-io/nats-server/v2",
			"github.com/centrifugal/centrifuge",
		}, path)
}

// fsyncTime is the median of 50 writes of 4 KiB, each synced.
func fsyncTime(dir string) (float64, error) {
	f, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, fmt.Errorf("measure fsync: %w", err)
	}
	defer f.Close()
	var took []float64
	page := make([]byte, 4096)
	for range 50 {
		began := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, fmt.Errorf("measure fsync: %w", err)
		}
		if err := f.Sync(); err != nil {
			return 0, fmt.Errorf("measure fsync: %w", err)
		}
		took = append(took, Ms(time.Since(began)))
	}
	return round(Median(took)), nil
}

// Load is the load average of the last minute.
func Load() string {
	l, _, _ := strings.Cut(line("/proc/loadavg"), " ")
	return l
}

func line(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(b))
}

func cpuModel() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		if key, value, ok := strings.Cut(in.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}
