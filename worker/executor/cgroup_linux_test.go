package executor

import (
	"os"
	"testing"

	"github.com/skein-project/skein/internal/require"
)

// cgroupForTests makes a group without processes, as a service manager
// delegates one.
func cgroupForTests(t *testing.T) string {
	t.Helper()
	require.Need(t, require.Cgroup)
	mount, err := require.CgroupMount()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(mount, "skein-test-") //nolint:usetesting // in that file system
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
