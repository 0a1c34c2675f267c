package coord

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/endpoint"
	"github.com/skein-project/skein/coord/gossip"
	"github.com/skein-project/skein/coord/health"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/notify"
	"github.com/skein-project/skein/coord/share"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/lease"
)

// memberCheck is the self-check of being a member.
const memberCheck = "membership"

const expireEvery = 5 * time.Minute // between looks at records that may be over

// Members is who belongs to the cluster, as the records that this host has say
// it. Its exported methods may be called from any goroutine while the Service
// runs; their errors wrap transport.ErrStopped after that.
type Members struct {
	key       ed25519.PublicKey // this host's identity
	hosts     *hosts
	records   *gossip.Records
	endpoints *endpoint.Endpoints
	waiting   *introductions
	net       *transport.Transport
	elector   *election.Elector
	health    *health.Monitor
	shares    *share.Shares
	loop      *loop
	views     *views
	notifier  *notify.Notifier
	log       zerolog.Logger
	// forget drops what the parts of the loop know of a host that was removed.
	forget []func(cluster.NodeID)

	expireAt time.Duration // next look at records that may be over
}

// AddRecords merges membership records that did not come from a peer: those
// of a host that this one admitted, or its own newer announcement. Members
// that are new are introduced to everyone. The error tells which records were
// refused.
func (m *Members) AddRecords(ctx context.Context, rs member.Records) error {
	var refused error
	err := m.loop.call(ctx, func() { refused = m.records.Add(rs, "", true) })
	if err != nil {
		return fmt.Errorf("add records: %w", err)
	}
	return refused
}

// Records returns all membership records that this host has.
func (m *Members) Records(ctx context.Context) (member.Records, error) {
	var rs member.Records
	if err := m.loop.call(ctx, func() { rs = m.records.Table().Records() }); err != nil {
		return member.Records{}, fmt.Errorf("read records: %w", err)
	}
	return rs, nil
}

// WithTable calls f with the membership table in the loop, for questions that
// a sponsor has: which addresses and slices are free. f must be quick and must
// not keep or change the table.
func (m *Members) WithTable(ctx context.Context, f func(*member.Table)) error {
	if err := m.loop.call(ctx, func() { f(m.records.Table()) }); err != nil {
		return fmt.Errorf("read membership table: %w", err)
	}
	return nil
}

// due does what time asks for.
func (m *Members) due(now time.Duration) {
	if now >= m.expireAt {
		m.expireAt = now + expireEvery
		m.records.Expire()
	}
	if m.endpoints.Due(now) {
		m.views.touchMembers()
	}
}

// formerMembers lists the hosts that were members once.
func (m *Members) formerMembers() []cluster.NodeID {
	var out []cluster.NodeID
	for _, r := range m.records.Table().Retired() {
		out = append(out, r.Node)
	}
	return out
}

// membersChanged follows a change of the membership records.
func (m *Members) membersChanged(now time.Duration) {
	h := m.hosts
	self := h.self.Node
	h.members = m.records.Members()
	dir := m.net.SetMembers(h.members)
	for _, c := range h.members {
		switch {
		case c.Node == self:
			h.self = c
		case h.know(c.Node, now):
			m.health.Add(c.Node, now)
			m.shares.Add(c.Node)
		}
	}
	m.net.Paths().Set(h.members, self)
	for node, p := range h.peers {
		if _, ok := dir.Member(node); !ok {
			m.drop(p)
		}
	}
	if ok := dir.Same(self, m.key); h.removed == ok {
		h.removed = !ok
		m.elector.SetSelf(h.self, len(h.members), h.removed)
		reason := ""
		if h.removed {
			reason = "this host is no longer a member"
		}
		m.elector.TellSelf()
		m.elector.SetFailing(memberCheck, reason)
	}
	m.elector.SetSelf(h.self, len(h.members), h.removed)
	if m.loop.running.Load() {
		m.elector.TellSelf()
	}
}

// drop forgets a host that is no longer a member.
func (m *Members) drop(p *peerState) {
	delete(m.hosts.peers, p.node)
	for _, f := range m.forget {
		f(p.node)
	}
	// Also one that was never heard: it may be a voter of before this start.
	m.elector.Step(lease.PeerChanged{Node: p.node, Priority: p.core.Priority, Gone: true})
}

// recordsMerged follows records that changed the membership; push says that they come
// from this host, so that everyone is to be told.
func (m *Members) recordsMerged(ch member.Change, from cluster.NodeID, push bool) {
	for _, n := range ch.Joined {
		m.log.Info().Str("peer", string(n)).Str("from", string(from)).Msg("member joined")
		m.waiting.add(n)
	}
	for _, n := range ch.Removed {
		m.log.Info().Str("peer", string(n)).Str("from", string(from)).Bool("left", slices.Contains(ch.Left, n)).Msg("member removed")
	}
	for _, n := range ch.Left {
		m.notifier.SetHealth(n, cluster.Left, false)
	}
	if push {
		m.records.Push(slices.Concat(ch.Joined, ch.Updated))
	}
	if push && m.health.Large() && slices.Contains(ch.Updated, m.hosts.self.Node) {
		// Everyone is to know its next key before it uses it.
		m.waiting.addAll(len(m.hosts.members))
	}
}

// healthChanged follows a change of what is believed of another host.
func (m *Members) healthChanged(t member.Transition) {
	m.views.touch()
	if m.hosts.peers[t.Node] == nil {
		return
	}
	stopped := m.health.HasStopped(t.Node)
	m.log.Info().Str("peer", string(t.Node)).Str("from", string(t.From)).Str("to", string(t.To)).Bool("stopped", stopped).Msg("health changed")
	m.notifier.SetHealth(t.Node, t.To, stopped)
	if t.To == cluster.Suspect || t.To == cluster.Dead {
		m.net.Paths().Lost(t.Node)
	}
}

// keyOf returns the identity key of a member.
func (m *Members) keyOf(n cluster.NodeID) (ed25519.PublicKey, bool) {
	c, ok := m.net.Directory().Member(n)
	return ed25519.PublicKey(c.IDPub), ok
}

// formerKeys returns the identity keys that a host had which is no longer a
// member.
func (m *Members) formerKeys(n cluster.NodeID) []ed25519.PublicKey {
	var keys []ed25519.PublicKey
	for _, r := range m.records.Table().Retired() {
		if r.Node == n && len(r.Cert.IDPub) == ed25519.PublicKeySize {
			keys = append(keys, ed25519.PublicKey(r.Cert.IDPub))
		}
	}
	return keys
}
