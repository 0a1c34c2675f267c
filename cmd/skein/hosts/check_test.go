package hosts

import (
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

// TestJudge gives monitoring the worst of what is wrong.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		name         string
		state        api.State
		holder       cluster.NodeID
		alive, total int
		reasons      []string
		code         int
		line         string
	}{
		{"all well", api.StateOK, "n1", 3, 3, nil, checkOK, "OK: n1 standby, term 7, holder n1, 3 of 3 alive | alive=3 members=3 term=7"},
		{"alone", api.StateOK, "n1", 1, 1, nil, checkOK, "OK: n1 standby, term 7, holder n1, 1 of 1 alive | alive=1 members=1 term=7"},
		{"one of two", api.StateDegraded, "n1", 1, 2, []string{"n2 dead"}, checkWarning, "WARNING: n2 dead, n1 standby, term 7, holder n1, 1 of 2 alive | alive=1 members=2 term=7"},
		{"joining", api.StateJoining, "n1", 3, 3, nil, checkWarning, "WARNING: the daemon is joining, n1 standby, term 7, holder n1, 3 of 3 alive | alive=3 members=3 term=7"},
		{"half of four", api.StateDegraded, "n1", 2, 4, []string{"n3 dead", "n4 dead"}, checkCritical, "CRITICAL: n3 dead, n4 dead, n1 standby, term 7, holder n1, 2 of 4 alive | alive=2 members=4 term=7"},
		{"no holder", api.StateDegraded, "", 3, 3, []string{"no holder known"}, checkCritical, "CRITICAL: no holder known, n1 standby, term 7, no holder, 3 of 3 alive | alive=3 members=3 term=7"},
	} {
		s := api.Status{State: tc.state, Role: cluster.RoleStandby, Term: 7, Reasons: tc.reasons}
		s.Node, s.Lease.Holder = "n1", tc.holder
		s.Members.Alive, s.Members.Total = tc.alive, tc.total
		if code, line := judge(s); code != tc.code || line != tc.line {
			t.Errorf("%s: %d %s", tc.name, code, line)
		}
	}
}
