package eventlog

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/state"
)

// brokenConn changes what the other side sends: after some bytes it ends, or
// one bit is wrong.
type brokenConn struct {
	net.Conn
	left int
	flip bool
}

var errBroken = errors.New("connection broken")

func (c *brokenConn) Read(b []byte) (int, error) {
	if c.left <= 0 && !c.flip {
		return 0, errBroken
	}
	n, err := c.Conn.Read(b[:min(len(b), max(c.left, 1))])
	if c.left -= n; c.left <= 0 && c.flip && n > 0 {
		b[n-1] ^= 4
		c.left, c.flip = 1<<40, false
	}
	return n, err
}

// TestCatchUpGoesOnAfterABreak ends a long fetch in the middle again and again,
// by a broken stream or a wrong bit. What was sound stays, nothing else is
// stored, and in the end all is there.
func TestCatchUpGoesOnAfterABreak(t *testing.T) {
	n := 12_000
	if os.Getenv("SKEIN_PROVE") != "" {
		n = 120_000
	}
	from := testOptions(t.TempDir(), "a")
	fill(t, from, n)
	nw := newNetwork(t)
	a := nw.join(t, from)
	o := testOptions(t.TempDir(), "b")
	o.IOTimeout = 5 * time.Second
	dial := nw.dialer("b")
	broken, flip := 0, true
	o.Dial = func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
		c, err := dial(ctx, to)
		if broken > 0 && err == nil {
			c = &brokenConn{Conn: c, left: broken, flip: flip}
		}
		return c, err
	}
	b, _ := start(t, o)
	src := a.Source()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var last uint64
	for _, broken = range []int{100, 1_300_000, 2_000_000} {
		flip = !flip
		if err := b.Sync(ctx, "a"); err == nil {
			t.Fatalf("a stream that breaks after %d bytes, flip %t: no error", broken, flip)
		}
		got := b.Head(src)
		if hash, ok := hashAt(a, src, got.Seq); got.Seq > 0 && (!ok || hash != got.Hash) {
			t.Fatalf("stored up to %d, which is not a's chain", got.Seq)
		}
		if broken > 1_000_000 && got.Seq <= last {
			t.Fatalf("stored up to %d after %d: the good range before the break is lost", got.Seq, last)
		}
		last = got.Seq
	}
	broken = 0
	if err := b.Sync(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	b.View(func(*state.State) {})
	if b.Digest() != a.Digest() || stateHash(a) != stateHash(b) {
		t.Fatal("caught up with something else")
	}
	if used := b.w.in.waiting(); used != 0 {
		t.Fatalf("%d bytes of the intake are not given back", used)
	}
}

// waiting is how many bytes the queue holds.
func (q *intake) waiting() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.used[0] + q.used[1] + q.used[2]
}
