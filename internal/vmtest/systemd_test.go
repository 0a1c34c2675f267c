package vmtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/require"
)

// build makes a static program of one of our packages for a guest.
func build(t *testing.T, args ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "go", append(args[:len(args)-1:len(args)-1], "-o", out, "./"+args[len(args)-1])...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return out
}

// skein is the program of SKEIN_BIN, or built now.
func skein(t *testing.T) string {
	t.Helper()
	if bin := os.Getenv("SKEIN_BIN"); bin != "" {
		return filepath.Join(bin, "skein")
	}
	return build(t, "build", "-ldflags=-s -w", "cmd/skein")
}

// script joins the parts of a guest's script out of testdata.
func script(t *testing.T, names ...string) string {
	t.Helper()
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// chunkResult is what each chunk of the guest's job prints.
const chunkResult = `{"iterations":1000,"metrics":{"x":{"n":1000,"mean":1,"m2":0,"min":1,"max":1}}}`

// TestSystemd boots Debian and starts the units as an installation would: each
// becomes ready with each kind of mesh, not as root.
func TestSystemd(t *testing.T) {
	require.Need(t, require.VM)
	require.Need(t, require.Rootfs)
	ctx, cancel := context.WithTimeout(t.Context(), fetchTimeout)
	defer cancel()
	k, err := FetchKernel(ctx)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	image, err := FetchRootfs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("root file system after %s", time.Since(start).Round(100*time.Millisecond))
	units := filepath.Join("..", "..", "systemd")
	g, err := SystemdGuest(ctx, k, image, []string{"wireguard", "tun", "dummy"}, script(t, "systemd.sh", "netstack.sh", "kernel.sh"), []File{
		Program("/usr/bin/skein", skein(t)),
		{Path: "/vmtest/chunk.wasm", Mode: 0o644, Text: string(guestModule(chunkResult))},
		{Path: "/usr/lib/systemd/system/skein.service", Mode: 0o644, Source: filepath.Join(units, "skein.service")},
		{Path: "/usr/lib/systemd/system/skein-netstack.service", Mode: 0o644, Source: filepath.Join(units, "skein-netstack.service")},
		{Path: "/usr/lib/sysusers.d/skein.conf", Mode: 0o644, Source: filepath.Join(units, "skein.sysusers")},
		{Path: "/usr/lib/systemd/network/05-skein.network", Mode: 0o644, Source: filepath.Join(units, "05-skein.network")},
		{Path: "/usr/lib/tmpfiles.d/skein.conf", Mode: 0o644, Source: filepath.Join(units, "skein.tmpfiles")},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := boot(t, g)
	show(t, r.Log, `^READY `)
}
