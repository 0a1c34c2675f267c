package notify

import (
	"context"
	"sync"

	"github.com/skein-project/skein/cluster"
)

// maxNotices bounds the notices that wait; when more come, the oldest are lost
// and counted.
const maxNotices = 256

// Notifier calls the hooks. Of members and health what waits is the latest state,
// so that it is bounded by the number of members. Notices come first: they are
// about how that state came about.
type Notifier struct {
	onMembers func([]cluster.Member)
	onHealth  func(node cluster.NodeID, h cluster.Health, stopped bool)
	wake      chan struct{} // capacity 1; a full one already wakes
	dropped   func()

	mu      sync.Mutex
	notices []func()
	members []cluster.Member // nil: nothing new
	health  map[cluster.NodeID]belief
	order   []cluster.NodeID // of health
}

// belief is what is believed of a host, and whether it said so itself.
type belief struct {
	health  cluster.Health
	stopped bool
}

// New returns a Notifier of these hooks, either of which may be nil. Dropped is
// called for each notice that was lost.
func New(onMembers func([]cluster.Member), onHealth func(node cluster.NodeID, h cluster.Health, stopped bool), dropped func()) *Notifier {
	return &Notifier{
		onMembers: onMembers, onHealth: onHealth, wake: make(chan struct{}, 1), dropped: dropped,
		health: make(map[cluster.NodeID]belief),
	}
}

// Notice calls f once, in order with other notices.
func (n *Notifier) Notice(f func()) {
	n.mu.Lock()
	if len(n.notices) >= maxNotices {
		n.notices = n.notices[1:]
		n.dropped()
	}
	n.notices = append(n.notices, f)
	n.mu.Unlock()
	n.kick()
}

// SetMembers reports the members, the latest that it was given.
func (n *Notifier) SetMembers(ms []cluster.Member) {
	n.mu.Lock()
	n.members = ms
	n.mu.Unlock()
	n.kick()
}

// SetHealth reports the health of a host, and whether the host said that it stops;
// the latest that it was given.
func (n *Notifier) SetHealth(node cluster.NodeID, h cluster.Health, stopped bool) {
	n.mu.Lock()
	if _, ok := n.health[node]; !ok {
		n.order = append(n.order, node)
	}
	n.health[node] = belief{h, stopped}
	n.mu.Unlock()
	n.kick()
}

func (n *Notifier) kick() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Run calls the hooks until ctx ends, and then those about notices that wait:
// nobody hears of them otherwise.
func (n *Notifier) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			n.flushNotices()
			return
		case <-n.wake:
			n.flush()
		}
	}
}

func (n *Notifier) flushNotices() {
	n.mu.Lock()
	notices := n.notices
	n.notices = nil
	n.mu.Unlock()
	for _, f := range notices {
		f()
	}
}

func (n *Notifier) flush() {
	n.flushNotices()
	n.mu.Lock()
	members, order, health := n.members, n.order, n.health
	n.members, n.order, n.health = nil, nil, make(map[cluster.NodeID]belief)
	n.mu.Unlock()
	if members != nil && n.onMembers != nil {
		n.onMembers(members)
	}
	for _, node := range order {
		if n.onHealth != nil {
			n.onHealth(node, health[node].health, health[node].stopped)
		}
	}
}
