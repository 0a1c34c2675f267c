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

// suiteBound is the longest that a guest may take that runs the tests of the
// kernel backend. Beside other tests it is three times as much.
const suiteBound = 60 * time.Second

// kernelScript runs the tests whose names begin with TestKernel: of the mesh,
// and with real daemons in namespaces.
const kernelScript = `
export REQUIRE=kernelwg,netns SKEIN_BIN=/skein SKEIN_NETNS_BACKEND=kernel
rc=0
cd /tests
./mesh.test -test.v -test.run '^TestKernel' -test.timeout 40m || rc=1
./netns.test -test.v -test.run '^TestKernel' -test.timeout 20m || rc=1
exit $rc
`

// kernelGuest is a guest for kernelScript.
func kernelGuest(t *testing.T) Guest {
	t.Helper()
	require.Need(t, require.VM)
	var files []File
	for _, name := range []string{"ip", "nft"} {
		program, err := HostProgram(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, program...)
	}
	files = append(files,
		Program("/skein/skein", skein(t)),
		Program("/tests/mesh.test", build(t, "test", "-c", "mesh")),
		Program("/tests/netns.test", build(t, "test", "-c", "test/netns")))
	return Guest{Modules: append(wireGuard, "dummy", "nf_tables"), Memory: 1024, Files: files, Script: kernelScript}
}

// TestKernel runs the tests of the kernel backend under a kernel that has
// WireGuard.
func TestKernel(t *testing.T) {
	g := kernelGuest(t)
	boots, bound := 1, 3*suiteBound
	if proving() {
		boots, bound = 20, suiteBound
	}
	for range boots {
		r := boot(t, g)
		show(t, r.Log, `^\s*(--- |\S+_test\.go:\d+: )`)
		if !strings.Contains(r.Log, "--- PASS: TestKernelDaemons") || !strings.Contains(r.Log, "--- PASS: TestKernelBackend") {
			t.Errorf("not all tests ran:\n%s", r.Log)
		}
		if r.Took > bound {
			t.Errorf("the guest took %s, at most %s", r.Took, bound)
		}
	}
}

// TestKernelFull runs them once with the full counts, however long it takes.
func TestKernelFull(t *testing.T) {
	if !proving() {
		t.Skip("skipped: the full counts run with SKEIN_PROVE=1")
	}
	g := kernelGuest(t)
	g.Script, g.Timeout = "export SKEIN_PROVE=1\n"+g.Script, time.Hour
	r := boot(t, g)
	show(t, r.Log, `^\s*(--- |\S+_test\.go:\d+: )`)
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
