package state

import (
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
)

// Member is what the log tells of a host.
type Member struct {
	Node    cluster.NodeID `json:"node"`
	IDPub   []byte         `json:"id_pub,omitempty"` // empty: no admission is logged
	IP4     string         `json:"ip4,omitempty"`
	Sponsor cluster.NodeID `json:"sponsor,omitempty"`
	Joined  cluster.HLC    `json:"joined,omitempty"`
	// Version, Boot and Started are of its last start.
	Version string      `json:"version,omitempty"`
	Boot    uint64      `json:"boot,omitempty"`
	Started cluster.HLC `json:"started,omitempty"`

	joinedAt, startedAt key
}

func (s *State) member(n cluster.NodeID) *Member {
	m, ok := s.members[n]
	if !ok {
		m = &Member{Node: n}
		s.members[n] = m
	}
	return m
}

// hostStarted keeps the latest start.
func (s *State) hostStarted(e *cluster.Event, b cluster.HostStarted) {
	m, at := s.member(e.Source.Node), keyOf(e)
	if m.startedAt.less(at) {
		m.startedAt, m.Started = at, e.HLC
		m.Version, m.Boot = clip(b.Version, cluster.MaxReason), b.Boot
	}
}

// memberJoined keeps the latest admission: a host may be admitted again.
func (s *State) memberJoined(e *cluster.Event, b cluster.MemberJoined) {
	if _, err := cluster.ParseNodeID(string(b.Node)); err != nil || len(b.IDPub) > 32 || len(b.IP4) > 64 {
		s.malformed++
		return
	}
	m, at := s.member(b.Node), keyOf(e)
	if m.joinedAt.less(at) {
		m.joinedAt, m.Joined = at, e.HLC
		m.IDPub, m.IP4, m.Sponsor = slices.Clone(b.IDPub), b.IP4, e.Source.Node
	}
}

// Members returns the hosts of the log by name.
func (s *State) Members() []Member {
	out := make([]Member, 0, len(s.members))
	for _, n := range slices.Sorted(maps.Keys(s.members)) {
		m := *s.members[n]
		m.IDPub = slices.Clone(m.IDPub)
		out = append(out, m)
	}
	return out
}

// Seq returns the last applied sequence number of a source, 0 for none.
func (s *State) Seq(id cluster.SourceID) uint64 {
	if src, ok := s.sources[id]; ok {
		return src.seq
	}
	return 0
}

// Counts says how many events were applied, and of these how many are void by
// a fence and how many could not be understood.
func (s *State) Counts() (applied, void, malformed uint64) {
	return s.applied, s.void, s.malformed
}
