package redistest

import (
	"os"
	"testing"

	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/servertest"
)

// Start starts a Redis that ends with the test, and returns the directory in which it is,
// whose name is short enough for the addresses of sockets. Without Redis the test is skipped.
func Start(t *testing.T) (*servertest.Redis, string) {
	t.Helper()
	require.Need(t, require.Redis)
	base, err := os.MkdirTemp("", "rd") //nolint:usetesting // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	redis, err := servertest.StartRedis(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop() })
	return redis, base
}
