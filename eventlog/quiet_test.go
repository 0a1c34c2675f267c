package eventlog

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/wire"
)

// ackingVoter is a voter that says it has whatever the log has, until it is mute.
type ackingVoter struct {
	l     *Log
	pings atomic.Int64
	mute  atomic.Bool
	ended chan time.Time // when a stream did; full: dropped
}

func (v *ackingVoter) dial(context.Context, cluster.NodeID) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		defer there.Close()
		for {
			m, err := wire.ReadMessage(there)
			if err != nil {
				select {
				case v.ended <- time.Now():
				default:
				}
				return
			}
			if m.Kind == wire.MsgPing {
				v.pings.Add(1)
			}
			if v.mute.Load() {
				continue
			}
			head := v.l.Head(v.l.Source())
			a := wire.Ack{Mark: event.Mark{Seq: head.Seq, Hash: head.Hash}}
			if wire.WriteMessage(there, wire.MsgAck, a.Encode()) != nil {
				return
			}
		}
	}()
	return here, nil
}

// withVoters runs f on fake time with a log whose other voters are v.
func withVoters(t *testing.T, cfg cluster.VoterConfig, f func(t *testing.T, l *Log, v *ackingVoter)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		v := &ackingVoter{ended: make(chan time.Time, 8)}
		o := testOptions(dir, "a")
		o.FS, o.Dial = quickFS(), v.dial
		l, err := Open(o)
		check(t, err)
		v.l = l
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		l.SetVoters(cfg)
		if _, err := waitStable(t, l, mustAppend(t, l, note(1))[0].Seq, time.Minute); err != nil {
			t.Fatal(err)
		}
		f(t, l, v)
		cancel()
		if err := <-done; ctx.Err() == nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

// TestQuietStreams: a stream on which nothing happens is asked for life now and
// then; where every voter that can be reached must acknowledge, each second.
func TestQuietStreams(t *testing.T) {
	for _, c := range []struct {
		name        string
		cfg         cluster.VoterConfig
		least, most int64
	}{
		{"a majority", voters("a", "b", "c"), 2 * 5, 2 * 6},
		{"all that can be reached", voters("a", "b"), 58, 61}, // both ends of the minute may have one
	} {
		t.Run(c.name, func(t *testing.T) {
			withVoters(t, c.cfg, func(t *testing.T, _ *Log, v *ackingVoter) {
				time.Sleep(5 * time.Second)
				before := v.pings.Load()
				time.Sleep(time.Minute)
				if n := v.pings.Load() - before; n < c.least || n > c.most {
					t.Errorf("%d pings in a minute, want %d-%d", n, c.least, c.most)
				}
			})
		})
	}
}

// TestMuteVoter: a push that a voter does not answer ends its stream within the
// time that an answer may take, however long nothing was pushed before.
func TestMuteVoter(t *testing.T) {
	for _, quiet := range []time.Duration{0, time.Second, 9 * time.Second, 95 * time.Second} {
		t.Run(quiet.String(), func(t *testing.T) {
			withVoters(t, voters("a", "b", "c"), func(t *testing.T, l *Log, v *ackingVoter) {
				time.Sleep(quiet)
				v.mute.Store(true)
				at := time.Now()
				for i := range 3 { // a later push does not prolong the wait
					mustAppend(t, l, note(2+i))
					time.Sleep(time.Second)
				}
				if took, most := (<-v.ended).Sub(at), l.o.IOTimeout+time.Second; took > most {
					t.Errorf("the stream ended after %s, want at most %s", took, most)
				}
			})
		})
	}
}

// TestSameLogIsNotPulled: a host that has just said that it has the same log is
// not asked; one that says something else is.
func TestSameLogIsNotPulled(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var same atomic.Bool
		same.Store(true)
		var dials atomic.Int64
		o := testOptions(dir, "a")
		o.FS, o.PullEvery = quickFS(), time.Second
		o.Peers = func() []cluster.NodeID { return []cluster.NodeID{"b"} }
		o.Dial = func(context.Context, cluster.NodeID) (net.Conn, error) {
			dials.Add(1)
			return nil, context.DeadlineExceeded
		}
		var l *Log
		o.Said = func(cluster.NodeID) ([16]byte, bool) {
			if same.Load() {
				return l.Digest(), true
			}
			return [16]byte{1}, true
		}
		l, err := Open(o)
		check(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- l.Run(ctx) }()
		time.Sleep(time.Minute)
		if n := dials.Load(); n != 0 {
			t.Errorf("a host with the same log was asked %d times", n)
		}
		same.Store(false)
		time.Sleep(10 * time.Second)
		if dials.Load() < 8 {
			t.Errorf("a host with another log was asked %d times in 10 s", dials.Load())
		}
		cancel()
		if err := <-done; ctx.Err() == nil {
			t.Error(err)
		}
	})
}
