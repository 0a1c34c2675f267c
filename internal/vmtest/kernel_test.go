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

// kernelGuest runs the tests of one of our packages whose names begin with
// TestKernel, under a kernel that has WireGuard.
func kernelGuest(t *testing.T, pkg string, files ...File) Guest {
	t.Helper()
	require.Need(t, require.VM)
	for _, name := range []string{"ip", "nft"} {
		program, err := HostProgram(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, program...)
	}
	return Guest{
		Modules: append([]string{"dummy", "nf_tables"}, wireGuard...), Memory: 1024,
		Files: append(files, Program("/tests/program", build(t, "test", "-c", pkg))),
		Script: "export REQUIRE=kernelwg,netns SKEIN_BIN=/skein SKEIN_NETNS_BACKEND=kernel\n" +
			"cd /tests && ./program -test.v -test.run '^TestKernel' -test.timeout 55m",
	}
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

// TestKernelBackend runs the tests of the mesh.
func TestKernelBackend(t *testing.T) {
	boots := 1
	if proving() {
		boots = 20
	}
	took := suite(t, kernelGuest(t, "mesh"), boots)
	if proving() && took > suiteBound {
		t.Errorf("a guest took %s, at most %s", took, suiteBound)
	}
}

// TestKernelFull runs them once with the full counts, however long it takes.
func TestKernelFull(t *testing.T) {
	if !proving() {
		t.Skip("skipped: the full counts run with SKEIN_PROVE=1")
	}
	g := kernelGuest(t, "mesh")
	g.Script, g.Timeout = "export SKEIN_PROVE=1\n"+g.Script, time.Hour
	show(t, boot(t, g).Log, testLines)
}

// TestKernelDaemons runs real daemons in namespaces of the guest.
func TestKernelDaemons(t *testing.T) {
	suite(t, kernelGuest(t, "test/netns", Program("/skein/skein", skein(t))), 1)
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
