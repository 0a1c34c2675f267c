package state

import (
	"maps"
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state/canon"
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

// hosts is what the log tells of hosts, and what operators asked for on them.
type hosts struct {
	members   map[cluster.NodeID]*member
	actions   latest[Action]
	published latest[Publication]
}

func newHosts() hosts { return hosts{members: make(map[cluster.NodeID]*member)} }

func (h *hosts) clone() hosts {
	c := hosts{
		members: make(map[cluster.NodeID]*member, len(h.members)),
		actions: slices.Clone(h.actions), published: slices.Clone(h.published),
	}
	for n, m := range h.members {
		copied := *m // what it points to is never changed
		c.members[n] = &copied
	}
	return c
}

// member is a set of registers that keep the latest value each. What their
// values point to is never changed.
type member struct {
	joined     canon.Register[admission]
	started    canon.Register[event.HostStarted]
	expires    canon.Register[int64]
	wgPub      canon.Register[[]byte]
	health     canon.Register[cluster.Health]
	left       canon.Register[string] // the actor
	removed    canon.Register[removal]
	publishing canon.Register[bool]
	disk       canon.Register[string] // its state
}

type admission struct {
	sponsor cluster.NodeID
	idPub   []byte
	ip4     string
	invite  string
}

type removal struct{ actor, reason string }

func (h *hosts) member(n cluster.NodeID) *member {
	m, ok := h.members[n]
	if !ok {
		m = &member{}
		h.members[n] = m
	}
	return m
}

// apply folds a fact about a host, or what an operator asked for; others are
// ignored.
func (h *hosts) apply(e *event.Event, from *bodies) {
	switch e.Kind {
	case event.KindHostStarted:
		foldMember(h, e, from, func(event.HostStarted) (cluster.NodeID, bool) { return e.Source.Node, true },
			func(m *member, b event.HostStarted) {
				b.Version = canon.Clip(b.Version, cluster.MaxReason)
				m.started.Set(canon.KeyOf(e), b)
			})
	case event.KindHostDisk:
		foldMember(h, e, from, func(b event.HostDisk) (cluster.NodeID, bool) { return e.Source.Node, validDisk(b.State) },
			func(m *member, b event.HostDisk) { m.disk.Set(canon.KeyOf(e), b.State) })
	case event.KindMemberJoined:
		foldMember(h, e, from, func(b event.MemberJoined) (cluster.NodeID, bool) {
			return b.Node, len(b.IDPub) <= maxKeyLen && len(b.IP4) <= maxAddrLen
		}, func(m *member, b event.MemberJoined) {
			m.joined.Set(canon.KeyOf(e), admission{
				sponsor: e.Source.Node, idPub: b.IDPub, ip4: b.IP4, invite: canon.Clip(b.Invite, maxInviteLen),
			})
		})
	case event.KindMemberRenewed:
		foldMember(h, e, from, func(b event.MemberRenewed) (cluster.NodeID, bool) { return b.Node, true },
			func(m *member, b event.MemberRenewed) { m.expires.Set(canon.KeyOf(e), b.Expires) })
	case event.KindMemberRekeyed:
		foldMember(h, e, from, func(b event.MemberRekeyed) (cluster.NodeID, bool) { return b.Node, len(b.WGPub) <= maxKeyLen },
			func(m *member, b event.MemberRekeyed) {
				m.wgPub.Set(canon.KeyOf(e), b.WGPub)
				h.act(e, Action{Actor: b.Actor, Subject: string(b.Node)})
			})
	case event.KindMemberHealth:
		foldMember(h, e, from, func(b event.MemberHealth) (cluster.NodeID, bool) { return b.Node, validHealth(b.To) },
			func(m *member, b event.MemberHealth) { m.health.Set(canon.KeyOf(e), b.To) })
	case event.KindMemberLeft:
		foldMember(h, e, from, func(b event.MemberLeft) (cluster.NodeID, bool) { return b.Node, true },
			func(m *member, b event.MemberLeft) {
				m.left.Set(canon.KeyOf(e), canon.Clip(b.Actor, maxActor))
				h.act(e, Action{Actor: b.Actor, Subject: string(b.Node)})
			})
	case event.KindMemberRemoved:
		foldMember(h, e, from, func(b event.MemberRemoved) (cluster.NodeID, bool) { return b.Node, true },
			func(m *member, b event.MemberRemoved) {
				m.removed.Set(canon.KeyOf(e), removal{actor: canon.Clip(b.Actor, maxActor), reason: canon.Clip(b.Reason, cluster.MaxReason)})
				h.act(e, Action{Actor: b.Actor, Subject: string(b.Node), Reason: b.Reason})
			})
	case event.KindPublishing:
		if b, ok := read[event.Publishing](from, e); ok {
			from.note(h.publishes(e, b))
		}
	default:
		h.applyAction(e, from)
	}
}

// foldMember folds a body about the host that check names.
func foldMember[T any](h *hosts, e *event.Event, from *bodies, check func(T) (cluster.NodeID, bool), fold func(*member, T)) {
	b, ok := read[T](from, e)
	if !ok {
		return
	}
	n, ok := check(b)
	if !ok || !canon.IsNode(n, false) {
		from.malformed++
		return
	}
	fold(h.member(n), b)
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
func (h *hosts) Members() []Member {
	out := make([]Member, 0, len(h.members))
	for _, n := range slices.Sorted(maps.Keys(h.members)) {
		out = append(out, h.members[n].view(n))
	}
	return out
}

func (m *member) view(n cluster.NodeID) Member {
	v := Member{
		Node: n, Status: MemberSeen, IDPub: slices.Clone(m.joined.V.idPub), IP4: m.joined.V.ip4,
		Sponsor: m.joined.V.sponsor, Invite: m.joined.V.invite, Joined: m.joined.At.HLC,
		Version: m.started.V.Version, Boot: m.started.V.Boot, Started: m.started.At.HLC, Expires: m.expires.V,
		WGPub: slices.Clone(m.wgPub.V), Rekeyed: m.wgPub.At.HLC, Health: m.health.V, HealthAt: m.health.At.HLC,
		Publishing: m.publishing.V, PublishingAt: m.publishing.At.HLC,
		Disk: m.disk.V, DiskAt: m.disk.At.HLC,
	}
	last := m.joined.At
	if !last.IsZero() {
		v.Status = MemberJoined
	}
	if last.Less(m.left.At) {
		last = m.left.At
		v.Status, v.Ended, v.EndedBy, v.Reason = MemberLeft, last.HLC, m.left.V, ""
	}
	if last.Less(m.removed.At) {
		last = m.removed.At
		v.Status, v.Ended, v.EndedBy, v.Reason = MemberRemoved, last.HLC, m.removed.V.actor, m.removed.V.reason
	}
	return v
}

func (h *hosts) write(w *canon.Writer) {
	w.Count(len(h.members))
	for _, n := range slices.Sorted(maps.Keys(h.members)) {
		w.Node(n)
		h.members[n].write(w)
	}
	w.Count(len(h.actions))
	for _, a := range h.actions {
		w.Key(a.At)
		w.Text(string(a.V.Kind))
		w.Text(a.V.Actor)
		w.Text(a.V.Subject)
		w.Text(a.V.Reason)
	}
	w.Count(len(h.published))
	for _, p := range h.published {
		w.Key(p.At)
		w.Flag(p.V.Publishing)
		w.Num(uint64(p.V.Term))
		w.Node(p.V.Publisher)
		w.Text(p.V.Why)
	}
}

func (h *hosts) read(r *canon.Reader) {
	for n := r.Count(); n > 0 && r.OK(); n-- {
		n := r.Node(false)
		h.members[n] = readMember(r)
	}
	for n := r.Count(); n > 0 && r.OK(); n-- {
		at := r.Key()
		h.actions = append(h.actions, canon.Register[Action]{At: at, V: Action{
			At: at.HLC, Node: at.Source.Node, Kind: event.Kind(r.Text(cluster.MaxReason)),
			Actor: r.Text(maxActor), Subject: r.Text(maxActor), Reason: r.Text(cluster.MaxReason),
		}})
	}
	for n := r.Count(); n > 0 && r.OK(); n-- {
		at := r.Key()
		h.published = append(h.published, canon.Register[Publication]{At: at, V: Publication{
			At: at.HLC, Node: at.Source.Node, Publishing: r.Flag(), Term: r.Term(), Publisher: r.Node(true),
			Why: r.Text(cluster.MaxReason),
		}})
	}
	r.Check(h.actions.sorted(MaxActions) && h.published.sorted(MaxPublications), "list of the latest")
}

func (m *member) write(w *canon.Writer) {
	canon.WriteRegister(w, m.joined, func(a admission) {
		w.Node(a.sponsor)
		w.Text(string(a.idPub))
		w.Text(a.ip4)
		w.Text(a.invite)
	})
	canon.WriteRegister(w, m.started, func(b event.HostStarted) {
		w.Text(b.Version)
		w.Num(b.Boot)
	})
	canon.WriteRegister(w, m.expires, func(v int64) { w.Fixed(uint64(v)) })
	canon.WriteRegister(w, m.wgPub, func(v []byte) { w.Text(string(v)) })
	canon.WriteRegister(w, m.health, func(v cluster.Health) { w.Text(string(v)) })
	canon.WriteRegister(w, m.left, w.Text)
	canon.WriteRegister(w, m.removed, func(r removal) {
		w.Text(r.actor)
		w.Text(r.reason)
	})
	canon.WriteRegister(w, m.publishing, w.Flag)
	canon.WriteRegister(w, m.disk, w.Text)
}

func readMember(r *canon.Reader) *member {
	m := &member{
		joined: canon.ReadRegister(r, func() admission {
			return admission{
				sponsor: r.Node(false), idPub: []byte(r.Text(maxKeyLen)), ip4: r.Text(maxAddrLen), invite: r.Text(maxInviteLen),
			}
		}),
		started: canon.ReadRegister(r, func() event.HostStarted {
			return event.HostStarted{Version: r.Text(cluster.MaxReason), Boot: r.Num()}
		}),
		expires: canon.ReadRegister(r, func() int64 { return int64(r.Fixed()) }),
		wgPub:   canon.ReadRegister(r, func() []byte { return []byte(r.Text(maxKeyLen)) }),
		health:  canon.ReadRegister(r, func() cluster.Health { return cluster.Health(r.Text(cluster.MaxReason)) }),
		left:    canon.ReadRegister(r, func() string { return r.Text(maxActor) }),
		removed: canon.ReadRegister(r, func() removal { return removal{actor: r.Text(maxActor), reason: r.Text(cluster.MaxReason)} }),
	}
	m.publishing = canon.ReadRegister(r, r.Flag)
	m.disk = canon.ReadRegister(r, func() string { return r.Text(maxActor) })
	r.Check(m.disk.At.IsZero() || validDisk(m.disk.V), "disk")
	r.Check(m.health.At.IsZero() || validHealth(m.health.V), "health")
	return m
}
