package vmtest

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/internal/require"
)

// proving is whether the full counts run, on a machine that does nothing else.
func proving() bool { return os.Getenv("SKEIN_PROVE") != "" }

// suiteBound is the longest that the guest may take which runs the tests of the
// kernel backend, on a machine that does nothing else.
const suiteBound = 60 * time.Second

// kernelGuest runs the tests of some of our packages whose names begin with
// TestKernel, one package after the other, under a kernel that has WireGuard.
func kernelGuest(t *testing.T, pkgs []string, files ...File) Guest {
	t.Helper()
	require.Need(t, require.VM)
	for _, name := range []string{"ip", "nft"} {
		program, err := HostProgram(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, program...)
	}
	// What one daemon does for a moment overloads an emulated processor, and it would refuse questions.
	script := "export REQUIRE=kernelwg,netns SKEIN_BIN=/skein SKEIN_NETNS_BACKEND=kernel SKEIN_OVERLOAD_ENABLED=false\n"
	for _, pkg := range pkgs {
		files = append(files, Program("/tests/"+pkg+"/program", build(t, "test", "-c", pkg)))
		script += "cd /tests/" + pkg + " && ./program -test.v -test.run '^TestKernel' -test.timeout 55m || exit 1\n"
	}
	return Guest{Modules: append([]string{"dummy", "nf_tables"}, wireGuard...), Memory: 1024, Files: files, Script: script}
}

// suite boots the guest some times and returns the longest that it took.
func suite(t *testing.T, g Guest, boots int) time.Duration {
	t.Helper()
	var longest time.Duration
	for range boots {
		r := boot(t, g)
		show(t, r.Log, testLines)
		if !strings.Contains(r.Log, "--- PASS: TestKernel") || strings.Contains(r.Log, "--- SKIP") {
			t.Errorf("not all tests ran:\n%s", r.Log)
		}
		t.Logf("guest done after %.1f s", r.Took.Seconds())
		longest = max(longest, r.Took)
	}
	return longest
}

// testLines are those of a test's output that tell how it went.
const testLines = `^\s*(--- |\S+_test\.go:\d+: )`

// TestKernel runs the tests of the mesh, and real daemons in namespaces of the guest.
func TestKernel(t *testing.T) {
	suite(t, kernelGuest(t, []string{"mesh", "test/netns"}, Program("/skein/skein", skein(t))), 1)
}

// TestKernelBackend boots for the tests of the mesh again and again, each time within
// the bound.
func TestKernelBackend(t *testing.T) {
	if !proving() {
		t.Skip("skipped: TestKernel does so once, SKEIN_PROVE=1 has twenty boots")
	}
	if took := suite(t, kernelGuest(t, []string{"mesh"}), 20); took > suiteBound {
		t.Errorf("a guest took %s, at most %s", took, suiteBound)
	}
}

// TestKernelFull runs them once with the full counts, however long it takes.
func TestKernelFull(t *testing.T) {
	if !proving() {
		t.Skip("skipped: the full counts run with SKEIN_PROVE=1")
	}
	g := kernelGuest(t, []string{"mesh"})
	g.Script, g.Timeout = "export SKEIN_PROVE=1\n"+g.Script, time.Hour
	show(t, boot(t, g).Log, testLines)
}

// show logs the lines of a guest that match.
func show(t *testing.T, log, pattern string) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	for line := range strings.Lines(log) {
		if re.MatchString(line) {
			t.Log(strings.TrimRight(line, "\n"))
		}
	}
}
