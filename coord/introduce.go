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
	queue  []cluster.NodeID
	queued map[cluster.NodeID]bool
	// records is how many introductions are to bring records in a large cluster.
	records int
	left    int // allowed this second
	since   time.Duration
}

func (q *introductions) add(node cluster.NodeID) {
	if !q.queued[node] {
		q.queued[node] = true
		q.queue = append(q.queue, node)
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

// introduce queues this host's own announcement for a member that is new here.
func (s *Service) introduce(to cluster.NodeID) {
	if s.peers[to] != nil && !s.removed {
		s.introductions.add(to)
	}
}

// introduceAll queues all members, from this host on: many that start at once
// are not to begin with the same.
func (s *Service) introduceAll() {
	i := max(0, slices.IndexFunc(s.members, func(m cluster.Member) bool { return m.Node == s.o.Self }))
	for _, m := range slices.Concat(s.members[i:], s.members[:i]) {
		s.introduce(m.Node)
	}
}

// introduceSome sends queued introductions, a bounded number per second.
func (s *Service) introduceSome(now time.Duration) {
	q := &s.introductions
	q.refill(now, s.slower(introduceRate))
	large := s.swim.core.Active()
	for {
		to, ok := q.next()
		if !ok {
			return
		}
		p := s.peers[to]
		if p == nil {
			continue // removed meanwhile
		}
		if large && q.records == 0 && p.beatAt > 0 && p.rtt.echoed > 0 {
			continue // it was first
		}
		q.left--
		if !large || q.records > 0 {
			q.records = max(0, q.records-1)
			s.records.Send(to, s.o.Self)
		}
		s.beatTo(to, now, false)
		p.introducedAt = now
	}
}
