package replicate

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
)

// TestWhoIsAskedHow: what a term or what is stable depends on is always tried; what is only read
// goes by Follow, which may refuse a host. Either is waited for longer where the host is far.
func TestWhoIsAskedHow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		how := ""
		dial := func(name string) func(context.Context, cluster.NodeID) (net.Conn, error) {
			return func(ctx context.Context, _ cluster.NodeID) (net.Conn, error) {
				how = name
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}
		r, err := New(Options{
			Self: "n1", IOTimeout: 5 * time.Second, Dial: dial("dial"), Follow: dial("follow"), Logger: zerolog.Nop(), Float: func() float64 { return 0.5 },
			RTT: func(n cluster.NodeID) time.Duration {
				return map[cluster.NodeID]time.Duration{"far": 300 * time.Millisecond}[n]
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			do   func(ctx context.Context, to cluster.NodeID) error
			want string
		}{
			"pull":         {r.Sync, "follow"},
			"follow":       {r.follow, "follow"},
			"snapshot":     {func(ctx context.Context, to cluster.NodeID) error { _, err := r.Follow(ctx, to); return err }, "follow"},
			"heads":        {func(ctx context.Context, to cluster.NodeID) error { _, err := r.HeadsOf(ctx, to, 3); return err }, "dial"},
			"push":         {func(ctx context.Context, to cluster.NodeID) error { return (&pusher{r: r, to: to}).session(ctx) }, "dial"},
			"catch up":     {func(ctx context.Context, to cluster.NodeID) error { _, err := r.pull(ctx, to, 3, r.dial); return err }, "dial"},
			"before an ok": {r.Level, "dial"},
		} {
			for to, want := range map[cluster.NodeID]time.Duration{"near": 5 * time.Second, "far": 5900 * time.Millisecond} {
				began := time.Now()
				if name == "before an ok" {
					want = 5 * time.Second // whoever waits for it waits no longer
				}
				if err := c.do(t.Context(), to); err == nil || how != c.want || time.Since(began) != want {
					t.Errorf("%s of %s: by %s after %s, want by %s after %s: %v", name, to, how, time.Since(began), c.want, want, err)
				}
			}
		}
	})
}
