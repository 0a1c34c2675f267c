package eventlog

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/wire"
)

// follower is a host beside two voters; pulls says whether it may pull.
func follower(t *testing.T) (a, b, c *Log, pulls *atomic.Bool) {
	t.Helper()
	nw := newNetwork(t)
	pulls = &atomic.Bool{}
	pulls.Store(true)
	var logs []*Log
	for _, id := range []cluster.NodeID{"a", "b", "c"} {
		o := testOptions(t.TempDir(), id)
		o.PullEvery = 20 * time.Millisecond
		o.Peers = func() []cluster.NodeID {
			if !pulls.Load() {
				return nil
			}
			return []cluster.NodeID{"a", "b", "c"}
		}
		l := nw.join(t, o)
		l.SetVoters(voters("a", "b"))
		logs = append(logs, l)
	}
	return logs[0], logs[1], logs[2], pulls
}

// TestFollowerIsToldAtOnce takes away the pulls of a host that follows a voter:
// it learns of every event all the same.
func TestFollowerIsToldAtOnce(t *testing.T) {
	a, b, c, pulls := follower(t)
	eventually(t, "c follows a voter", func() bool { return metric(t, c, "following") == 1 })
	pulls.Store(false)
	for i := range 20 {
		from := []*Log{a, b}[i%2]
		e := mustAppend(t, from, note(i))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		if err := c.Wait(ctx, e[0].Source, e[0].Seq); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	if metric(t, a, "following")+metric(t, b, "following") != 0 {
		t.Error("a voter follows")
	}
}

// TestFollowersAreBounded fills the places of a voter.
func TestFollowersAreBounded(t *testing.T) {
	a, b, c, pulls := follower(t)
	eventually(t, "c follows a voter", func() bool { return metric(t, c, "following") == 1 })
	pulls.Store(false)
	mustAppend(t, a, note(1)) // so that there is something to answer with at once
	mustAppend(t, b, note(1))
	for id, l := range map[string]*Log{"a": a, "b": b} {
		var conns []net.Conn
		follow := func() wire.Type {
			here, there := net.Pipe()
			go l.Serve(t.Context(), "x", there)
			conns = append(conns, here)
			check(t, here.SetDeadline(time.Now().Add(patience)))
			check(t, wire.WriteMessage(here, wire.MsgTail, wire.HeadsQuestion(0, [16]byte{1})))
			m, err := wire.ReadMessage(here)
			check(t, err)
			return m.Kind
		}
		taken := 0
		for range 100 {
			if follow() == wire.MsgRefused {
				break
			}
			taken++
		}
		// c may have one of the places.
		if taken < 63 || taken > 64 {
			t.Errorf("%s takes %d followers, want 64", id, taken)
		}
		if kind := follow(); kind != wire.MsgRefused {
			t.Errorf("%s has no place left and takes a follower: answer %d", id, kind)
		}
		for _, c := range conns {
			check(t, c.Close())
		}
		eventually(t, "places are given back", func() bool { return follow() != wire.MsgRefused })
		check(t, conns[len(conns)-1].Close())
	}
}

// TestQuestionForChangesIsChecked sends malformed ones.
func TestQuestionForChangesIsChecked(t *testing.T) {
	l, _ := start(t, testOptions(t.TempDir(), "a"))
	for _, b := range [][]byte{nil, make([]byte, 23), make([]byte, 25), append([]byte{1}, make([]byte, 23)...)} {
		here, there := net.Pipe()
		done := make(chan struct{})
		go func() { l.Serve(t.Context(), "x", there); close(done) }()
		check(t, here.SetDeadline(time.Now().Add(patience)))
		check(t, wire.WriteMessage(here, wire.MsgTail, b))
		if m, err := wire.ReadMessage(here); err != nil || m.Kind != wire.MsgSorry {
			t.Errorf("%x is answered with %d, %v", b, m.Kind, err)
		}
		<-done
	}
}
