package lastseen

import (
	"reflect"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
)

// TestSeenBy: voters that were heard with the time of day, those that never were with
// none, others not at all.
func TestSeenBy(t *testing.T) {
	v := &coord.View{Self: "n1", Members: []coord.MemberView{
		{Member: cluster.Member{Node: "n1"}, Heard: true},
		{Member: cluster.Member{Node: "n2"}, Heard: true, LastHeard: 50 * time.Second},
		{Member: cluster.Member{Node: "n3"}},
		{Member: cluster.Member{Node: "n4"}, Heard: true, LastHeard: time.Minute},
	}}
	v.Lease.Config.Voters = []cluster.NodeID{"n1", "n2", "n3"}
	wall := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	seen := seenBy(v, time.Minute, wall)
	if want := map[cluster.NodeID]time.Time{"n2": wall.Add(-10 * time.Second), "n3": {}}; !seen.Stopped.Equal(wall) || !reflect.DeepEqual(seen.Heard, want) {
		t.Fatalf("%+v", seen)
	}
}
