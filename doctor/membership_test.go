package doctor

import (
	"context"
	"strings"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/statetest"
)

// TestMembership: of a host whose key ended the doctor says so, from its state
// directory alone.
func TestMembership(t *testing.T) {
	dir := statetest.WithLog(t, 1)
	id, _, err := join.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	h := Host{Config: config.Fixed{StateDir: dir}}
	check := func(name string, v verdict, want api.Verdict, text string) {
		t.Helper()
		if v.v != want || !strings.Contains(v.detail, text) || (want == api.VerdictFail) != strings.Contains(v.hint, "new token") {
			t.Errorf("%s: %+v, want %s with %q", name, v, want, text)
		}
	}
	check("member", checkMembership(context.Background(), h), api.VerdictOK, "is a member")
	own := member.Retired{Node: id.Node, Cert: member.Cert{IDPub: id.IDPub}, Reason: "stolen"}
	check("removed", judgeMembership(id, []member.Retired{{Node: "n9"}, own}), api.VerdictFail, join.ErrRemoved.Error()+": stolen")
	namesake := own
	namesake.Cert.IDPub = make([]byte, len(id.IDPub))
	check("another of that name", judgeMembership(id, []member.Retired{namesake}), api.VerdictOK, "is a member")
	if err := join.MarkLeft(dir); err != nil {
		t.Fatal(err)
	}
	check("left", checkMembership(context.Background(), h), api.VerdictFail, join.ErrLeft.Error())
	h.Config.StateDir = t.TempDir()
	check("none", checkMembership(context.Background(), h), api.VerdictSkip, "no member's")
}
