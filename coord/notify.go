package coord

import (
	"context"
	"sync"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
)

// maxNotices bounds the notices that wait; when more come, the oldest are lost
// and counted.
const maxNotices = 256

// notifier calls the hooks, so that a slow one delays nobody else. Of members
// and health what waits is the latest state, so that it is bounded by the
// number of members. Notices come first: they are about how that state came.
type notifier struct {
	onMembers func([]cluster.Member)
	onHealth  func(cluster.NodeID, cluster.Health)
	wake      chan struct{} // capacity 1; a full one already wakes
	m         *metrics

	mu      sync.Mutex
	notices []func()
	members []cluster.Member // nil: nothing new
	health  map[cluster.NodeID]cluster.Health
	order   []cluster.NodeID // of health
}

func newNotifier(o *Options, m *metrics) *notifier {
	return &notifier{
		onMembers: o.OnMembers, onHealth: o.OnHealth, wake: make(chan struct{}, 1), m: m,
		health: make(map[cluster.NodeID]cluster.Health),
	}
}

// notice calls f once, in order with other notices.
func (n *notifier) notice(f func()) {
	n.mu.Lock()
	if len(n.notices) >= maxNotices {
		n.notices = n.notices[1:]
		n.m.dropped.WithLabelValues("notice").Inc()
	}
	n.notices = append(n.notices, f)
	n.mu.Unlock()
	n.kick()
}

func (n *notifier) setMembers(ms []cluster.Member) {
	n.mu.Lock()
	n.members = ms
	n.mu.Unlock()
	n.kick()
}

func (n *notifier) setHealth(node cluster.NodeID, h cluster.Health) {
	n.mu.Lock()
	if _, ok := n.health[node]; !ok {
		n.order = append(n.order, node)
	}
	n.health[node] = h
	n.mu.Unlock()
	n.kick()
}

func (n *notifier) kick() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// run calls the hooks until ctx ends, and then those about notices that wait:
// nobody hears of them otherwise.
func (n *notifier) run(ctx context.Context) {
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

func (n *notifier) flushNotices() {
	n.mu.Lock()
	notices := n.notices
	n.notices = nil
	n.mu.Unlock()
	for _, f := range notices {
		f()
	}
}

func (n *notifier) flush() {
	n.flushNotices()
	n.mu.Lock()
	members, order, health := n.members, n.order, n.health
	n.members, n.order, n.health = nil, nil, make(map[cluster.NodeID]cluster.Health)
	n.mu.Unlock()
	if members != nil && n.onMembers != nil {
		n.onMembers(members)
	}
	for _, node := range order {
		if n.onHealth != nil {
			n.onHealth(node, health[node])
		}
	}
}

// saver writes membership records down, the latest that it was given, so that
// the loop does not wait for the disk.
type saver struct {
	save func(member.Records) error
	wake chan struct{} // capacity 1; a full one already wakes
	fail func(error)

	mu     sync.Mutex
	latest *member.Records
}

func (v *saver) set(rs member.Records) {
	v.mu.Lock()
	v.latest = &rs
	v.mu.Unlock()
	select {
	case v.wake <- struct{}{}:
	default:
	}
}

// run saves until ctx ends, and then what is still waiting.
func (v *saver) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			v.flush()
			return
		case <-v.wake:
			v.flush()
		}
	}
}

func (v *saver) flush() {
	v.mu.Lock()
	rs := v.latest
	v.latest = nil
	v.mu.Unlock()
	if rs == nil {
		return
	}
	if err := v.save(*rs); err != nil {
		v.fail(err)
	}
}
