package forward

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/skein-project/skein/cluster"
)

// TestFarHost: a stream to a host that is far has as much more time to be opened as it takes.
func TestFarHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := New(Options{
			Self: "n1", Lease: func() Lease { return Lease{Holder: "n2"} },
			RTT: func(n cluster.NodeID) time.Duration {
				return map[cluster.NodeID]time.Duration{"far": 300 * time.Millisecond}[n]
			},
			Dial: func(ctx context.Context, _ cluster.NodeID) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for to, want := range map[cluster.NodeID]time.Duration{"near": 2 * time.Second, "far": 2900 * time.Millisecond} {
			began := time.Now()
			if _, err := AskHost(t.Context(), r, CheckLog, to, "", LogCheckRun{}); err == nil || time.Since(began) != want {
				t.Errorf("%s: given up after %s, want %s: %v", to, time.Since(began), want, err)
			}
		}
	})
}
