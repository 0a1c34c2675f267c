package doctor

import (
	"context"
	"errors"
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
	if err := Ended(dir); err != nil {
		t.Errorf("a member: %v", err)
	}
	own := member.Retired{Node: id.Node, Cert: member.Cert{IDPub: id.IDPub}, Reason: "stolen"}
	if err := endOf(id, []member.Retired{{Node: "n9"}, own}); !errors.Is(err, join.ErrRemoved) || !strings.HasSuffix(err.Error(), ": stolen") {
		t.Errorf("removed: %v", err)
	}
	namesake := own
	namesake.Cert.IDPub = make([]byte, len(id.IDPub))
	if err := endOf(id, []member.Retired{namesake}); err != nil {
		t.Errorf("another of that name: %v", err)
	}
	own.Left = true
	if err := endOf(id, []member.Retired{own}); !errors.Is(err, join.ErrLeft) {
		t.Errorf("left, by the records: %v", err)
	}
	if err := join.MarkLeft(dir); err != nil {
		t.Fatal(err)
	}
	check("left", checkMembership(context.Background(), h), api.VerdictFail, join.ErrLeft.Error())
	if err := Ended(dir); !errors.Is(err, join.ErrLeft) {
		t.Errorf("left: %v", err)
	}
	h.Config.StateDir = t.TempDir()
	if err := Ended(h.Config.StateDir); err != nil {
		t.Errorf("none: %v", err)
	}
	check("none", checkMembership(context.Background(), h), api.VerdictSkip, "no member's")
}
