package eventlog

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
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
	eventually(t, "c follows a voter", func() bool { return gaugeOf(t, c.m.tailing) == 1 })
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
	if a.tails.Load()+b.tails.Load() != 1 {
		t.Errorf("a tells %d, b %d; want one follower", a.tails.Load(), b.tails.Load())
	}
	if gaugeOf(t, a.m.tailing)+gaugeOf(t, b.m.tailing) != 0 {
		t.Error("a voter follows")
	}
}

// TestFollowersAreBounded fills the places of a voter.
func TestFollowersAreBounded(t *testing.T) {
	a, b, c, pulls := follower(t)
	eventually(t, "c follows a voter", func() bool { return gaugeOf(t, c.m.tailing) == 1 })
	pulls.Store(false)
	a.tails.Add(maxTails)
	b.tails.Add(maxTails)
	if err := c.tail(t.Context(), "a"); err == nil {
		t.Error("a has no place left and takes a follower")
	}
	if err := c.tail(t.Context(), "b"); err == nil {
		t.Error("b has no place left and takes a follower")
	}
	eventually(t, "places are given back", func() bool { return a.tails.Load()+b.tails.Load() <= 2*maxTails+1 })
}

// TestQuestionForChangesIsChecked sends malformed ones.
func TestQuestionForChangesIsChecked(t *testing.T) {
	l, _ := start(t, testOptions(t.TempDir(), "a"))
	s := &stream{l: l}
	for _, b := range [][]byte{nil, make([]byte, 23), make([]byte, 25), append([]byte{1}, make([]byte, 23)...)} {
		if kind, _, err := s.answerTail(t.Context(), b); err == nil {
			t.Errorf("%x is answered with %d", b, kind)
		}
	}
	if l.tails.Load() != 0 {
		t.Error("a malformed question takes a place")
	}
}
