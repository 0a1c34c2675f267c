package transport

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
)

// Skew is how far a member's clock was off when its messages were refused for
// that.
type Skew struct {
	Offset time.Duration // ahead of this host
	At     time.Duration // local clock
}

// skews are the offsets of clocks that are too far off for their messages to
// count. The readers of messages note them, the owner reads them.
type skews struct {
	mu sync.Mutex
	m  map[cluster.NodeID]Skew // guarded by mu
}

func (k *skews) set(node cluster.NodeID, v Skew) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.m[node] = v
}

func (k *skews) get(node cluster.NodeID) (Skew, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	v, ok := k.m[node]
	return v, ok
}

func (k *skews) forget(node cluster.NodeID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.m, node)
}

// skewOf is how far a sender's clock is ahead, to the second that a message
// names.
func skewOf(sent int64, wall time.Time) time.Duration {
	return time.Duration(sent-wall.Unix()) * time.Second
}

// timestamps judges the time of messages.
type timestamps struct {
	now       func() time.Duration
	wall      func() time.Time
	started   time.Duration // local clock; set before the first message
	tolerance atomic.Int64  // a time.Duration
}

// check refuses a message whose time is off. This host's start is reckoned back
// from now, so that a wall clock that is set right does not shut out everyone.
func (c *timestamps) check(m wire.Message, onion bool) error {
	wall, tolerance := c.wall(), time.Duration(c.tolerance.Load())
	if onion {
		tolerance *= stretch
	}
	return m.Fresh(wall, wall.Add(c.started-c.now()), tolerance)
}
