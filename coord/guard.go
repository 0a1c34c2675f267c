package coord

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/path"
)

// guardLimits bound what answers to one protocol may cost.
type guardLimits struct {
	peer, all   int // streams at once, of one peer and in all
	rate, burst float64
}

// What a peer that asks without end gets of each protocol, and all together.
// An honest one asks once a second at most, and not twice at once.
var (
	pullGuard  = guardLimits{peer: 2, all: 64, rate: 5, burst: 30}
	introGuard = guardLimits{peer: 2, all: 32, rate: 2, burst: 10}
	// A stream that replaces another is there before that has ended.
	onionGuard = guardLimits{peer: 3, all: 2 * path.MaxStreams, rate: 0.5, burst: 10}
)

// guard keeps a protocol's handler from being asked too much: streams beyond
// its limits are closed unanswered and counted as "busy". It has no goroutine.
type guard struct {
	guardLimits
	now     func() time.Duration
	handler Handler
	refused func()

	mu      sync.Mutex
	running map[cluster.NodeID]int
	total   int
	buckets map[cluster.NodeID]*bucket // of members, at most twice as many as there may be
}

func newGuard(l guardLimits, now func() time.Duration, refused func(), h Handler) *guard {
	return &guard{
		guardLimits: l, now: now, handler: h, refused: refused,
		running: make(map[cluster.NodeID]int), buckets: make(map[cluster.NodeID]*bucket),
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
	if g.running[from] >= g.peer || g.total >= g.all {
		return false
	}
	b := g.buckets[from]
	if b == nil {
		if len(g.buckets) >= 2*member.MaxMembers {
			clear(g.buckets)
		}
		b = &bucket{}
		g.buckets[from] = b
	}
	if !b.take(now, g.rate, g.burst) {
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
