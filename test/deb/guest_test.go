package deb

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/skein-project/skein/internal/require"
	"github.com/skein-project/skein/internal/vmtest"
)

// TestGuest boots a Debian where the package is installed and its unit started:
// an upgrade hands the lease over, removal takes the device away, and a purge all.
func TestGuest(t *testing.T) {
	require.Need(t, require.VM)
	require.Need(t, require.Rootfs)
	deb := built(t)
	ctx, cancel := context.WithTimeout(t.Context(), fetching)
	defer cancel()
	kernel, err := vmtest.FetchKernel(ctx)
	if err != nil {
		t.Fatal(err)
	}
	image, err := vmtest.FetchRootfs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join("testdata", "guest.sh"))
	if err != nil {
		t.Fatal(err)
	}
	g, err := vmtest.SystemdGuest(ctx, kernel, image, []string{"wireguard", "tun", "dummy"}, string(script), []vmtest.File{
		{Path: "/vmtest/skein.deb", Mode: 0o644, Source: repacked(t, deb, "skein.deb", func(string) {})},
		{Path: "/vmtest/later.deb", Mode: 0o644, Source: newer(t, deb)},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := vmtest.Boot(t.Context(), t.TempDir(), g)
	if r != nil {
		t.Logf("up for %s:\n%s", r.Took, r.Log)
	}
	if err != nil || r.RC != 0 || strings.Count(r.Log, "READY ") != 3 {
		t.Fatalf("%v", err)
	}
}
