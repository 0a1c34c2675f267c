package transport

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/internal/bucket"
)

// Limits bound what serving one protocol may cost.
type Limits struct {
	Peer, All   int     // streams at once, of one peer and in all
	Rate, Burst float64 // streams per second of one peer, and at once
}

// guard keeps a protocol's handler from being asked too much: streams beyond
// its limits are closed unanswered and counted as "busy".
type guard struct {
	Limits
	now     func() time.Duration
	handler Handler
	refused func()

	mu      sync.Mutex
	running map[cluster.NodeID]int
	total   int
	buckets map[cluster.NodeID]*bucket.Bucket // of members, at most twice as many as there may be
}

func newGuard(l Limits, now func() time.Duration, refused func(), h Handler) *guard {
	return &guard{
		Limits: l, now: now, handler: h, refused: refused,
		running: make(map[cluster.NodeID]int), buckets: make(map[cluster.NodeID]*bucket.Bucket),
	}
}

// serve is the Handler.
func (g *guard) serve(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	if !g.enter(from) {
		g.refused()
		return
	}
	defer g.exit(from)
	g.handler(ctx, from, conn)
}

func (g *guard) enter(from cluster.NodeID) bool {
	now := g.now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[from] >= g.Peer || g.total >= g.All {
		return false
	}
	b := g.buckets[from]
	if b == nil {
		if len(g.buckets) >= 2*member.MaxMembers {
			clear(g.buckets)
		}
		b = &bucket.Bucket{}
		g.buckets[from] = b
	}
	if !b.Take(bucket.Rate{PerSecond: g.Rate, Burst: g.Burst}, now) {
		return false
	}
	g.running[from]++
	g.total++
	return true
}

func (g *guard) exit(from cluster.NodeID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running[from]--; g.running[from] <= 0 {
		delete(g.running, from)
	}
	g.total--
}
