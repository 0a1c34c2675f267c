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
)

// analyze returns the path of systemd-analyze, or skips.
func analyze(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("skipped: systemd-analyze is not installed")
	}
	return path
}

// unit writes skein.service with a binary that exists here.
func unit(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("skein.service")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "skein.service")
	text = bytes.ReplaceAll(text, []byte("/usr/bin/skein"), []byte("/bin/true"))
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestVerify takes any output as a failure: unknown directives are only
// warned about.
func TestVerify(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), analyze(t), "verify", "--man=no", unit(t)).CombinedOutput()
	if err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Fatalf("systemd-analyze verify: %v\n%s", err, out)
	}
}

func TestSandbox(t *testing.T) {
	tool := analyze(t)
	if help, err := exec.CommandContext(t.Context(), tool, "--help").CombinedOutput(); err != nil || !bytes.Contains(help, []byte("--offline")) {
		t.Skip("skipped: systemd-analyze cannot judge a unit offline")
	}
	// The threshold is ten times the exposure level.
	out, err := exec.CommandContext(t.Context(), tool, "security", "--offline=true", "--threshold=20", "--no-pager", unit(t)).CombinedOutput()
	if err != nil {
		t.Fatalf("systemd-analyze security: %v\n%s", err, out)
	}
	if m := regexp.MustCompile(`Overall exposure level.*`).Find(out); m != nil {
		t.Logf("%s", m)
	}
}

// TestUnitFile holds what the tools cannot know.
func TestUnitFile(t *testing.T) {
	text, err := os.ReadFile("skein.service")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, want := range []string{
		"Type=notify", "NotifyAccess=main", "WatchdogSec=30", "ExecStart=/usr/bin/skein run",
		"KillSignal=SIGTERM", "TimeoutStopSec=60", "Restart=always", "StateDirectory=skein", "RuntimeDirectory=skein",
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("%s is missing", want)
		}
	}
	for _, l := range lines {
		if strings.HasPrefix(l, "MemoryDenyWriteExecute=") || strings.HasPrefix(l, "PrivateUsers=") {
			t.Errorf("%s breaks the daemon", l)
		}
	}
}
