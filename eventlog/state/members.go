package state

import (
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// Bounds of what is kept of hosts.
const (
	maxKeyLen    = 32
	maxAddrLen   = 64
	maxInviteLen = 64
)

// Member is what the log tells of a host.
type Member struct {
	Node    cluster.NodeID `json:"node"`
	Status  MemberStatus   `json:"status"`
	IDPub   []byte         `json:"id_pub,omitempty"` // empty: no admission is logged
	IP4     string         `json:"ip4,omitempty"`
	Sponsor cluster.NodeID `json:"sponsor,omitempty"`
	Invite  string         `json:"invite,omitempty"`
	Joined  cluster.HLC    `json:"joined,omitempty"`
	// Version, Boot and Started are of its last start.
	Version string      `json:"version,omitempty"`
	Boot    uint64      `json:"boot,omitempty"`
	Started cluster.HLC `json:"started,omitempty"`
	// Expires is the end of its certificate as last renewed, in seconds since
	// the Unix epoch; 0: no renewal is logged.
	Expires int64 `json:"expires,omitempty"`
	// WGPub is its WireGuard key since Rekeyed; empty: no change is logged.
	WGPub   []byte      `json:"wg_pubkey,omitempty"`
	Rekeyed cluster.HLC `json:"rekeyed,omitempty"`
	// Health is what holders believe of it, since HealthAt.
	Health   cluster.Health `json:"health,omitempty"`
	HealthAt cluster.HLC    `json:"health_at,omitempty"`
	// Disk is the room for its log: ok, low, full or out, since DiskAt; empty: not
	// logged.
	Disk   string      `json:"disk,omitempty"`
	DiskAt cluster.HLC `json:"disk_at,omitempty"`
	// Ended is when it left or was removed, EndedBy who asked.
	Ended   cluster.HLC `json:"ended,omitempty"`
	EndedBy string      `json:"ended_by,omitempty"`
	Reason  string      `json:"reason,omitempty"`
	// Publishing is whether it has the publishing duty, since PublishingAt.
	Publishing   bool        `json:"publishing,omitempty"`
	PublishingAt cluster.HLC `json:"publishing_at,omitempty"`
}

// MemberStatus says how a host stands to the cluster.
type MemberStatus string

// Standings of a host; the latest event decides.
const (
	MemberSeen    MemberStatus = "seen" // it writes events; no admission is logged
	MemberJoined  MemberStatus = "joined"
	MemberLeft    MemberStatus = "left"
	MemberRemoved MemberStatus = "removed"
)

// stamped is a value with the event that set it.
type stamped[T any] struct {
	at key
	v  T
}

// set keeps the latest value.
func (s *stamped[T]) set(at key, v T) {
	if s.at.less(at) {
		s.at, s.v = at, v
	}
}

// first keeps the earliest value.
func (s *stamped[T]) first(at key, v T) {
	if s.at.isZero() || at.less(s.at) {
		s.at, s.v = at, v
	}
}

// keepLatest puts v in its place among the latest limit of a list.
func keepLatest[T any](list []stamped[T], at key, v T, limit int) []stamped[T] {
	i, _ := slices.BinarySearchFunc(list, at, func(o stamped[T], at key) int { return o.at.compare(at) })
	list = slices.Insert(list, i, stamped[T]{at: at, v: v})
	if len(list) > limit {
		list = slices.Delete(list, 0, 1)
	}
	return list
}

// member is a set of registers that keep the latest value each. What their
// values point to is never changed.
type member struct {
	joined     stamped[admission]
	started    stamped[event.HostStarted]
	expires    stamped[int64]
	wgPub      stamped[[]byte]
	health     stamped[cluster.Health]
	left       stamped[string] // the actor
	removed    stamped[removal]
	publishing stamped[bool]
	disk       stamped[string] // its state
}

type admission struct {
	sponsor cluster.NodeID
	idPub   []byte
	ip4     string
	invite  string
}

type removal struct{ actor, reason string }

func (s *State) member(n cluster.NodeID) *member {
	m, ok := s.members[n]
	if !ok {
		m = &member{}
		s.members[n] = m
	}
	return m
}

// applyMember folds a fact about a host.
func (s *State) applyMember(e *event.Event) (ok bool) {
	switch e.Kind {
	case event.KindHostStarted:
		foldMember(s, e, func(event.HostStarted) (cluster.NodeID, bool) { return e.Source.Node, true },
			func(m *member, b event.HostStarted) {
				b.Version = clip(b.Version, cluster.MaxReason)
				m.started.set(keyOf(e), b)
			})
	case event.KindHostDisk:
		foldMember(s, e, func(b event.HostDisk) (cluster.NodeID, bool) { return e.Source.Node, validDisk(b.State) },
			func(m *member, b event.HostDisk) { m.disk.set(keyOf(e), b.State) })
	case event.KindMemberJoined:
		foldMember(s, e, func(b event.MemberJoined) (cluster.NodeID, bool) {
			return b.Node, len(b.IDPub) <= maxKeyLen && len(b.IP4) <= maxAddrLen
		}, func(m *member, b event.MemberJoined) {
			m.joined.set(keyOf(e), admission{
				sponsor: e.Source.Node, idPub: b.IDPub, ip4: b.IP4, invite: clip(b.Invite, maxInviteLen),
			})
		})
	case event.KindMemberRenewed:
		foldMember(s, e, func(b event.MemberRenewed) (cluster.NodeID, bool) { return b.Node, true },
			func(m *member, b event.MemberRenewed) { m.expires.set(keyOf(e), b.Expires) })
	case event.KindMemberRekeyed:
		foldMember(s, e, func(b event.MemberRekeyed) (cluster.NodeID, bool) { return b.Node, len(b.WGPub) <= maxKeyLen },
			func(m *member, b event.MemberRekeyed) {
				m.wgPub.set(keyOf(e), b.WGPub)
				s.act(e, Action{Actor: b.Actor, Subject: string(b.Node)})
			})
	case event.KindMemberHealth:
		foldMember(s, e, func(b event.MemberHealth) (cluster.NodeID, bool) { return b.Node, validHealth(b.To) },
			func(m *member, b event.MemberHealth) { m.health.set(keyOf(e), b.To) })
	case event.KindMemberLeft:
		foldMember(s, e, func(b event.MemberLeft) (cluster.NodeID, bool) { return b.Node, true },
			func(m *member, b event.MemberLeft) {
				m.left.set(keyOf(e), clip(b.Actor, maxActor))
				s.act(e, Action{Actor: b.Actor, Subject: string(b.Node)})
			})
	case event.KindMemberRemoved:
		foldMember(s, e, func(b event.MemberRemoved) (cluster.NodeID, bool) { return b.Node, true },
			func(m *member, b event.MemberRemoved) {
				m.removed.set(keyOf(e), removal{actor: clip(b.Actor, maxActor), reason: clip(b.Reason, cluster.MaxReason)})
				s.act(e, Action{Actor: b.Actor, Subject: string(b.Node), Reason: b.Reason})
			})
	default:
		return false
	}
	return true
}

// foldMember folds a body about the host that check names.
func foldMember[T any](s *State, e *event.Event, check func(T) (cluster.NodeID, bool), fold func(*member, T)) {
	b, ok := decode[T](s, e)
	if !ok {
		return
	}
	n, ok := check(b)
	if !ok || !isNode(n, false) {
		s.malformed++
		return
	}
	fold(s.member(n), b)
}

func validHealth(h cluster.Health) bool {
	switch h {
	case cluster.Joining, cluster.Alive, cluster.Suspect, cluster.Dead, cluster.Left:
		return true
	}
	return false
}

func validDisk(state string) bool {
	switch state {
	case "ok", "low", "full", "out":
		return true
	}
	return false
}

// Members returns the hosts of the log by name.
func (s *State) Members() []Member {
	out := make([]Member, 0, len(s.members))
	for _, n := range slices.Sorted(maps.Keys(s.members)) {
		out = append(out, s.members[n].view(n))
	}
	return out
}

func (m *member) view(n cluster.NodeID) Member {
	v := Member{
		Node: n, Status: MemberSeen, IDPub: slices.Clone(m.joined.v.idPub), IP4: m.joined.v.ip4,
		Sponsor: m.joined.v.sponsor, Invite: m.joined.v.invite, Joined: m.joined.at.hlc,
		Version: m.started.v.Version, Boot: m.started.v.Boot, Started: m.started.at.hlc, Expires: m.expires.v,
		WGPub: slices.Clone(m.wgPub.v), Rekeyed: m.wgPub.at.hlc, Health: m.health.v, HealthAt: m.health.at.hlc,
		Publishing: m.publishing.v, PublishingAt: m.publishing.at.hlc,
		Disk: m.disk.v, DiskAt: m.disk.at.hlc,
	}
	last := m.joined.at
	if !last.isZero() {
		v.Status = MemberJoined
	}
	if last.less(m.left.at) {
		last = m.left.at
		v.Status, v.Ended, v.EndedBy, v.Reason = MemberLeft, last.hlc, m.left.v, ""
	}
	if last.less(m.removed.at) {
		last = m.removed.at
		v.Status, v.Ended, v.EndedBy, v.Reason = MemberRemoved, last.hlc, m.removed.v.actor, m.removed.v.reason
	}
	return v
}

// Seq returns the last applied sequence number of a source, 0 for none.
func (s *State) Seq(id event.SourceID) uint64 {
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
