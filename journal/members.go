package journal

import (
	"maps"
	"slices"
	"sync"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// Members writes down what the holder believes of the members: what one host
// believes is news only there. While nobody holds the lease nobody writes, so a
// new holder begins with what changed since its predecessor wrote, the death of
// that predecessor above all.
//
// The zero value is not usable. It is safe for concurrent use.
type Members struct {
	note func([]event.Draft)

	mu     sync.Mutex
	logged map[cluster.NodeID]cluster.Health // as the log says; nil while this host does not hold
}

// Belief is what a host believes of another.
type Belief struct {
	Health cluster.Health
	// Stopped hosts are dead because they said that they stop.
	Stopped bool
}

// NewMembers returns Members that queue their events with note.
func NewMembers(note func([]event.Draft)) *Members { return &Members{note: note} }

// Begin writes what differs between what the log says of members' health and
// what this host believes, now that it holds the lease and knows the log of a
// majority. Until End each change is written.
func (m *Members) Begin(logged map[cluster.NodeID]cluster.Health, believed map[cluster.NodeID]Belief) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logged = maps.Clone(logged)
	if m.logged == nil {
		m.logged = map[cluster.NodeID]cluster.Health{}
	}
	var drafts []event.Draft
	for _, id := range slices.Sorted(maps.Keys(believed)) {
		if d, ok := m.change(id, believed[id]); ok {
			drafts = append(drafts, d)
		}
	}
	m.note(drafts)
}

// Changed notes that this host believes something else of a member.
func (m *Members) Changed(id cluster.NodeID, b Belief) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d, ok := m.change(id, b); ok {
		m.note([]event.Draft{d})
	}
}

// End says that this host no longer holds the lease.
func (m *Members) End() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.logged = nil
}

// change is the event that the log lacks, if it lacks one. mu is held.
func (m *Members) change(id cluster.NodeID, b Belief) (event.Draft, bool) {
	h := b.Health
	if m.logged == nil || h == cluster.Joining { // a host that was not heard yet is no news
		return event.Draft{}, false
	}
	was, ok := m.logged[id]
	if !ok {
		was = cluster.Joining
	}
	if was == h {
		return event.Draft{}, false
	}
	m.logged[id] = h
	return event.Draft{Kind: event.KindMemberHealth, Body: event.MemberHealth{Node: id, From: was, To: h, Stopped: b.Stopped && h == cluster.Dead}}, true
}
