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
	there := func(n cluster.NodeID) bool { return n != "spot-c" }
	got := gone(secret, logged, there, 0, now)
	if !slices.Equal(got, []cluster.NodeID{"spot-a"}) {
		t.Errorf("%v", got)
	}
	// Of several sponsors one does at once, and each other one once those before it had time.
	sponsors := []cluster.NodeID{"n1", "n2", "n3"}
	for i, after := range []time.Duration{0, ephemeralTurn, 2 * ephemeralTurn} {
		n := turn(sponsors[i], slices.Concat(sponsors[:i], sponsors[i+1:]))
		for _, at := range []time.Duration{after - ephemeralEvery, after, after + ephemeralEvery} {
			if got := gone(secret, logged[:1], there, n, now.Add(at)); len(got) != 0 != (at >= after) {
				t.Errorf("%s removes %v %s after an hour", sponsors[i], got, at)
			}
		}
	}
	if n := turn("n3", []cluster.NodeID{"n2"}); n != 1 { // the first is dead
		t.Errorf("turn %d", n)
	}
}
