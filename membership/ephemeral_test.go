package membership

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/eventlog/state"
)

// TestGone has which members a sponsor removes unasked: ephemeral ones that are dead for an
// hour by the log, and still.
func TestGone(t *testing.T) {
	secret := bytes.Repeat([]byte{1}, token.SecretLen)
	come, stay := token.NewEphemeralID(secret, "n1"), token.NewID(secret, "n1")
	now := time.Unix(1_800_000_000, 0)
	dead := func(n cluster.NodeID, invite string, since time.Duration) state.Member {
		return state.Member{Node: n, Status: state.MemberJoined, Sponsor: "n1", Invite: invite, Health: cluster.Dead, HealthAt: cluster.NewHLC(now.Add(-since), 0)}
	}
	logged := []state.Member{
		dead("spot-a", come, time.Hour), dead("spot-b", come, time.Hour-time.Minute), dead("spot-c", come, 2*time.Hour), dead("n4", stay, 2*time.Hour),
	}
	left, alive := dead("spot-d", come, 2*time.Hour), dead("spot-e", come, 2*time.Hour)
	left.Status, alive.Health = state.MemberLeft, cluster.Alive
	foreign := dead("spot-f", come, 2*time.Hour)
	foreign.Sponsor = "n2"
	logged = append(logged, left, alive, foreign)
	got := gone(secret, logged, func(n cluster.NodeID) bool { return n != "spot-c" }, now)
	if !slices.Equal(got, []cluster.NodeID{"spot-a"}) {
		t.Errorf("%v", got)
	}
}
