package hosts

import (
	"strings"
	"testing"
	"time"

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

// TestJudgePublishing: monitoring hears of a descriptor that is not published, once it
// is more than a moment.
func TestJudgePublishing(t *testing.T) {
	now := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { return new(now.Add(-d)) }
	for want, p := range map[string]api.PublishSummary{
		"OK: n1 standby, term 7, holder n1, 3 of 3 alive, publish ok 12m ago by n1, next in 48m | alive=3 members=3 term=7":        {State: api.PublishOK, PublishedAt: ago(12 * time.Minute), By: "n1", NextAt: ago(-48 * time.Minute)},
		"OK: n1 standby, term 7, holder n1, 3 of 3 alive | alive=3 members=3 term=7":                                               {State: api.PublishFailing, FailingSince: ago(5 * time.Minute)},
		"WARNING: publish failing 11m: 2 of 8 directories, n1 standby, term 7, holder n1, 3 of 3 alive | alive=3 members=3 term=7": {State: api.PublishFailing, FailingSince: ago(11 * time.Minute), Stored: 2, Asked: 8},
	} {
		s := api.Status{State: api.StateOK, Role: cluster.RoleStandby, Term: 7, Publish: p}
		s.ObservedAt, s.Node, s.Lease.Holder, s.Members.Alive, s.Members.Total = now, "n1", "n1", 3, 3
		if code, line := judge(s); line != want || (code == checkOK) != strings.HasPrefix(want, "OK") {
			t.Errorf("%d %s\nwant %s", code, line, want)
		}
	}
}
