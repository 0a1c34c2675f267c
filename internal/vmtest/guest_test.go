package vmtest

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/require"
)

// wireGuard are the modules of a guest that meshes its namespaces.
var wireGuard = []string{"wireguard", "veth", "tun", "bridge", "sch_netem"}

func TestVerdict(t *testing.T) {
	for log, want := range map[string]int{
		"":                               -1,
		"VMTEST rc=":                     -1,
		"said VMTEST rc=0\n":             -1,
		"a\nVMTEST rc=0\nb\n":            0,
		"VMTEST rc=0\nVMTEST rc=3\n[ 1]": 3,
	} {
		rc, ok := verdict(log)
		if !ok {
			rc = -1
		}
		if rc != want {
			t.Errorf("%q: verdict %d, want %d", log, rc, want)
		}
	}
}

func TestLoadOrder(t *testing.T) {
	k := &Kernel{deps: parseDeps("kernel/net/wireguard.ko: kernel/net/udp-tunnel.ko kernel/lib/chacha.ko\n" +
		"kernel/net/udp-tunnel.ko:\nkernel/lib/chacha.ko.xz:\nkernel/net/veth.ko: kernel/net/udp-tunnel.ko\n")}
	got := k.Load("wireguard", "veth", "builtin", "wireguard")
	want := []string{"kernel/lib/chacha.ko", "kernel/net/udp-tunnel.ko", "kernel/net/wireguard.ko", "kernel/net/veth.ko"}
	if !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// TestCPIO unpacks an archive with the tool everyone has.
func TestCPIO(t *testing.T) {
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("skipped: no busybox to unpack with")
	}
	source := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(source, bytes.Repeat([]byte("x"), 12345), 0o644); err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := writeCPIO(&archive, []File{
		{Path: "/a/b/text", Mode: 0o640, Text: "hello"},
		Program("/a/program", source),
		{Path: "/link", Mode: fs.ModeSymlink, Text: "a/b/text"},
		{Path: "/empty", Mode: fs.ModeDir | 0o755},
		{Path: "/a", Mode: fs.ModeDir | 0o755},
	}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), busybox, "cpio", "-id")
	cmd.Dir, cmd.Stdin = dir, &archive
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "link")); err != nil || string(text) != "hello" {
		t.Errorf("through the link: %q, %v", text, err)
	}
	info, err := os.Stat(filepath.Join(dir, "a", "program"))
	if err != nil || info.Size() != 12345 || info.Mode().Perm() != 0o755 {
		t.Errorf("program: %v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "empty")); err != nil || !info.IsDir() {
		t.Errorf("directory: %v, %v", info, err)
	}
	for _, bad := range []string{"relative", "/a/../b"} {
		if writeCPIO(&archive, []File{{Path: bad}}) == nil {
			t.Errorf("path %q is accepted", bad)
		}
	}
}

// boot runs a guest and shows its output if it fails.
func boot(t *testing.T, g Guest) *Result {
	t.Helper()
	require.Need(t, require.VM)
	ctx, cancel := context.WithTimeout(t.Context(), fetchTimeout)
	defer cancel()
	var err error
	if g.Kernel, err = FetchKernel(ctx); err != nil {
		t.Fatal(err)
	}
	r, err := Boot(t.Context(), t.TempDir(), g)
	if err != nil {
		if r != nil {
			t.Logf("guest:\n%s", r.Log)
		}
		t.Fatal(err)
	}
	t.Logf("kernel %s, up for %s", g.Kernel.Version, r.Took.Round(100*time.Millisecond))
	if r.RC != 0 {
		t.Fatalf("exit status %d of\n%s", r.RC, r.Log)
	}
	return r
}
