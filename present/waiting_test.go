package present

import (
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
)

func TestWaiting(t *testing.T) {
	zone := api.WaitReason{Reason: "zone", Text: "not in zone mars", Workers: 5, Examples: []cluster.NodeID{"n1", "n2"}}
	gone := api.WaitReason{Reason: "gone", Text: "dead", Workers: 1, Examples: []cluster.NodeID{"n6"}}
	held := api.WaitReason{Reason: "held", Text: "the event log has no room for new work"}
	for want, w := range map[string]api.Waiting{
		"0 of 6 workers eligible: zone 5, gone 1": {Workers: 6, Reasons: []api.WaitReason{zone, gone}},
		"0 of 1 worker eligible: gone 1":          {Workers: 1, Reasons: []api.WaitReason{gone}},
		"0 of 0 workers eligible":                 {},
		"the event log has no room for new work":  {Workers: 6, Eligible: 6, Reasons: []api.WaitReason{held}},
	} {
		if got := Waiting(w); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, r := range map[string]api.WaitReason{
		"n1, n2 and 3 more: not in zone mars": zone, "n6: dead": gone, "the event log has no room for new work": held,
	} {
		if got := WaitReason(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
