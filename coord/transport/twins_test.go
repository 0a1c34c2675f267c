package transport

import (
	"testing"
	"time"

	"github.com/skein-project/skein/coord/wire"
)

// TestTwins: only what the host's key signed, after the start that counts began,
// shows a second process.
func TestTwins(t *testing.T) {
	a, other, _ := benchAcceptor(t)
	mallory := &peer{node: other.node, key: seedKey("mallory")}
	take := func(by *peer, boot, seq uint64, after time.Duration) wire.Reason {
		_, _, err := a.check(sealFor(t, by, wire.Header{
			Node: other.node, Time: benchTime.Add(after).Unix(), Type: wire.TypeLeaseRelease, To: "host-a", Boot: boot, Seq: seq,
		}, nil), other.addr)
		if err == nil {
			return ""
		}
		return wire.ReasonOf(err)
	}
	for i, c := range []struct {
		by        *peer
		boot, seq uint64
		after     time.Duration
		want      wire.Reason
	}{
		{other, 9, 1, 0, ""},
		{other, 5, 1, 2 * time.Second, wire.ReasonBoot}, // on its way when that start began
		{mallory, 5, 1, 4 * time.Second, wire.ReasonBoot},
		{other, 5, 1, 4 * time.Second, ReasonDuplicate},
		{other, 9, 1, 0, wire.ReasonReplay},
		{mallory, 9, 1, time.Second, wire.ReasonReplay},
		{other, 9, 1, time.Second, ReasonDuplicate},
		{other, 9, 2, time.Second, ""},
		{other, 9, 2 + recentSigs, time.Second, ""},
		{other, 9, 2, 2 * time.Second, wire.ReasonReplay}, // too long ago to tell
	} {
		if got := take(c.by, c.boot, c.seq, c.after); got != c.want {
			t.Errorf("%d: %q, want %q", i, got, c.want)
		}
	}
	if got := a.twins.m[other.node].count; got != 2 {
		t.Errorf("%d noted", got)
	}
}
