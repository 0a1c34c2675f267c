package systemd

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/internal/require"
)

// units are the unit files and ten times the exposure level that each may
// have.
var units = map[string]string{
	"skein.service":          "15",
	"skein-netstack.service": "11",
}

// installed writes a unit with programs that exist here.
func installed(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	text = bytes.ReplaceAll(text, []byte("/usr/bin/skein"), []byte("/bin/true"))
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestVerify takes any output as a failure: unknown directives are only
// warned about.
func TestVerify(t *testing.T) {
	require.Need(t, require.Systemd)
	for name := range units {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", installed(t, name)).CombinedOutput()
		if err != nil || len(bytes.TrimSpace(out)) > 0 {
			t.Errorf("systemd-analyze verify %s: %v\n%s", name, err, out)
		}
	}
	// The check itself: a misspelt directive must not pass.
	path := installed(t, "skein.service")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("ProtectHome="), []byte("ProtectHouse="), 1)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", path).CombinedOutput()
	if err == nil && len(bytes.TrimSpace(out)) == 0 {
		t.Error("systemd-analyze verify lets a misspelt directive pass")
	}
}

// TestUserUnit: the unit of `skein work` is one that a user's manager takes.
func TestUserUnit(t *testing.T) {
	require.Need(t, require.Systemd)
	cmd := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--user", "--man=no", installed(t, "skein-work.service"))
	cmd.Env = append(os.Environ(), "XDG_RUNTIME_DIR="+t.TempDir(), "HOME="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("systemd-analyze verify --user: %v\n%s", err, out)
	}
}

func TestExposure(t *testing.T) {
	require.Need(t, require.Systemd)
	for name, threshold := range units {
		out, err := exec.CommandContext(t.Context(), "systemd-analyze", "security", "--offline=true", "--threshold="+threshold, "--no-pager", installed(t, name)).CombinedOutput()
		if err != nil {
			t.Errorf("systemd-analyze security %s: %v\n%s", name, err, out)
		}
		if m := regexp.MustCompile(`Overall exposure level.*`).Find(out); m != nil {
			t.Logf("%s", m)
		}
	}
}

// TestUnitFiles holds what the tools cannot know.
func TestUnitFiles(t *testing.T) {
	both := []string{
		"Type=notify", "NotifyAccess=main", "WatchdogSec=30", "ExecStart=/usr/bin/skein run", "KillSignal=SIGTERM",
		"TimeoutStopSec=60", "Restart=always", "RestartPreventExitStatus=2", "StateDirectory=skein", "LoadCredential=skein.token", "NoNewPrivileges=yes",
		`ExecReload=/bin/sh -c "kill -HUP $MAINPID"`, "SystemCallFilter=~@privileged @resources",
	}
	for name, want := range map[string][]string{
		"skein.service": append([]string{
			"User=skein", "AmbientCapabilities=CAP_NET_ADMIN", "CapabilityBoundingSet=CAP_NET_ADMIN",
			"SecureBits=noroot-locked", "RuntimeDirectory=skein wireguard", "Conflicts=skein-netstack.service",
		}, both...),
		"skein-netstack.service": append([]string{
			"DynamicUser=yes", "AmbientCapabilities=", "CapabilityBoundingSet=", "PrivateUsers=yes",
			"RuntimeDirectory=skein", "Conflicts=skein.service",
		}, both...),
	} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for _, w := range want {
			if !slices.Contains(lines, w) {
				t.Errorf("%s: %s is missing", name, w)
			}
		}
		for _, l := range lines {
			// It forbids the machine code that chunks are compiled to, and a
			// user namespace voids the capability.
			if strings.HasPrefix(l, "MemoryDenyWriteExecute=") || name == "skein.service" && strings.HasPrefix(l, "PrivateUsers=") {
				t.Errorf("%s: %s breaks the daemon", name, l)
			}
		}
	}
}
