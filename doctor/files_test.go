package doctor

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/join/starts"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/internal/statetest"
)

// TestStateFiles: the doctor names a damaged file with the next command, a failure
// where the daemon does not go on by itself.
func TestStateFiles(t *testing.T) {
	cfg := statetest.Config(t)
	h := Host{Config: cfg.Fixed}
	dir := cfg.StateDir
	expect := func(what string, want api.Verdict, texts ...string) {
		t.Helper()
		v := checkFiles(t.Context(), h)
		for _, text := range texts {
			if v.v != want || !strings.Contains(v.detail+"\n"+v.hint, text) {
				t.Errorf("%s: %+v, want %s with %q", what, v, want, text)
			}
		}
	}
	expect("no member", api.VerdictOK, "written")
	if err := join.Init(dir, join.InitOptions{Node: "n1", ClusterName: "lab", Network: netip.MustParsePrefix("10.86.0.0/16")}); err != nil {
		t.Fatal(err)
	}
	expect("before the first start", api.VerdictOK, "written")
	if _, err := starts.Boot(dir, true, time.Unix(1_700_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	expect("no vote", api.VerdictWarn, "vote.json", "missing", "abstains")
	for f, want := range map[*durable.File]api.Verdict{
		durable.Identity: api.VerdictFail, durable.Records: api.VerdictFail, durable.RootKey: api.VerdictFail,
		durable.Boot: api.VerdictWarn, durable.Epoch: api.VerdictWarn,
	} {
		good, err := os.ReadFile(f.Path(dir))
		if err != nil {
			t.Fatal(err)
		}
		bad := append([]byte(nil), good...)
		bad[len(bad)/3] ^= 2
		if err := os.WriteFile(f.Path(dir), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		expect(f.Name, want, f.Path(dir), f.What, f.Back, f.Next)
		if err := os.WriteFile(f.Path(dir), good, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
