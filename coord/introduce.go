package coord

import (
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

const (
	// introduceRate bounds introductions per second of a host that is well.
	introduceRate = 20
	// introduceFull is how many of a start's introductions bring records in a
	// large cluster; the other hosts pull them from those.
	introduceFull = 16
)

// introductions are the members that this host is to introduce itself to.
type introductions struct {
	hosts  *hosts
	queue  []cluster.NodeID
	queued map[cluster.NodeID]bool
	// records is how many introductions are to bring records in a large cluster.
	records int
	left    int // allowed this second
	since   time.Duration
}

// add queues this host's own announcement for a member.
func (q *introductions) add(node cluster.NodeID) {
	if q.hosts.peers[node] == nil || q.hosts.removed || q.queued[node] {
		return
	}
	q.queued[node] = true
	q.queue = append(q.queue, node)
}

// addAll queues all members, from this host on: many that start at once are not
// to begin with the same. That many are to bring records.
func (q *introductions) addAll(records int) {
	q.records = records
	members := q.hosts.members
	i := max(0, slices.IndexFunc(members, func(m cluster.Member) bool { return m.Node == q.hosts.self.Node }))
	for _, m := range slices.Concat(members[i:], members[:i]) {
		q.add(m.Node)
	}
}

// forget lets a host that comes back be queued again.
func (q *introductions) forget(node cluster.NodeID) { delete(q.queued, node) }

// refill allows rate introductions in each second.
func (q *introductions) refill(now time.Duration, rate int) {
	if now-q.since >= time.Second || q.since == 0 {
		q.since, q.left = max(now, 1), rate
	}
}

// next takes a host off the queue, if one more is allowed.
func (q *introductions) next() (cluster.NodeID, bool) {
	if len(q.queue) == 0 || q.left <= 0 {
		return "", false
	}
	to := q.queue[0]
	q.queue = q.queue[1:]
	delete(q.queued, to)
	return to, true
}

// deadline is when an introduction that waits is allowed.
func (q *introductions) deadline() (time.Duration, bool) {
	return q.since + time.Second, len(q.queue) > 0 && q.left <= 0
}
