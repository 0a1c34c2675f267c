package lease

import (
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// What gives a host the publishing duty, as Status tells it.
const (
	PublishByLease = "lease"
	PublishByRule  = "no lease visible"
)

// Duty says who, as far as this host knows, has the publishing duty, and
// whether it is this host. Publishing must go on in every partition, since a
// descriptor published twice is harmless and one not published is an outage.
// So this duty, unlike a term, is not exclusive: hosts that do not hear each
// other may all have it.
type Duty struct {
	// Publisher is empty if this host knows of nobody.
	Publisher cluster.NodeID
	// Publishing says that it is this host.
	Publishing bool
	// ByLease says that the publisher has it as the holder of Term; if not,
	// Term is 0.
	ByLease bool
	Term    cluster.Term
}

func (Duty) isAction() {}

func (a Duty) String() string {
	return fmt.Sprintf("duty publisher=%q publishing=%t term=%d by_lease=%t", a.Publisher, a.Publishing, a.Term, a.ByLease)
}

// Why says what gives the publisher its duty; it is empty if there is no
// publisher.
func (a Duty) Why() string {
	switch {
	case a.Publisher == "":
		return ""
	case a.ByLease:
		return PublishByLease
	}
	return PublishByRule
}

// MayPublish reports whether this host has the publishing duty at now. No
// fence stands behind it: to publish twice does no harm.
func MayPublish(s State, now time.Duration) bool { return s.dutyAt(max(s.now, now)).Publishing }

// StaleClaim reports whether a host that says to have the publishing duty
// under term must not be believed: this host knows a valid lease of a later
// one.
func StaleClaim(s State, term cluster.Term) bool {
	return s.holder.Holder != "" && term < s.holder.Term
}

// dutyAt is the rule of the publishing duty. It depends on the lease, and the
// lease does not depend on it.
//
// A visible valid lease, this host's own or that of the holder whom it
// guards, gives the duty to its holder and to nobody else; a host that no
// renewal reaches takes a living holder's own word for it. When the lease is
// gone the duty stays where it was, or goes at once to the successor that the
// release names. After Suspect + Grace it is the best living host's. Whoever
// has the duty goes on until a better host really publishes: what hosts know of
// each other differs, and a gap is worse than a double.
func (s *State) dutyAt(now time.Duration) Duty {
	if h := s.holder; h.Holder != "" {
		return Duty{Publisher: h.Holder, Publishing: h.Holder == s.self && !s.gone, ByLease: true, Term: h.Term}
	}
	if p := s.declared(); p != nil {
		return Duty{Publisher: p.Node, ByLease: true, Term: p.Holds}
	}
	own := Duty{Publisher: s.self, Publishing: true}
	keeps := s.duty.Publishing && !s.gone
	if now < s.standsIn() {
		switch heir := s.heir(); {
		case keeps, heir == s.self && s.fit():
			return own
		case heir != "" && heir != s.self:
			return Duty{Publisher: heir}
		case s.duty.Publisher != s.self:
			return Duty{Publisher: s.duty.Publisher}
		}
		return Duty{}
	}
	best, claims := s.standing()
	switch {
	case keeps && (claims == nil || s.fit() && better(s.priority, s.self, claims.Priority, claims.Node)):
		return own
	case s.fit() && (best == nil || better(s.priority, s.self, best.Priority, best.Node)):
		return own
	case best != nil:
		return Duty{Publisher: best.Node}
	}
	return Duty{}
}

// standsIn is until when this host waits for a lease to be seen again.
func (s *State) standsIn() time.Duration { return s.unseen + s.timing.Suspect + s.timing.Grace }

// fit reports whether this host may take the publishing duty up.
func (s *State) fit() bool { return !s.witness && !s.leaving && !s.gone && s.notOK == "" }

// declared returns the living host that says of itself to hold the newest
// lease, nil if there is none. One that is older than a lease that this host
// has seen, or that was released, is over.
func (s *State) declared() *peer {
	var best *peer
	for i := range s.peers {
		p := &s.peers[i]
		if p.Alive && !p.Gone && p.Holds != 0 && p.Holds >= s.last.Term && p.Holds > s.released.Term &&
			(best == nil || p.Holds > best.Holds) {
			best = p
		}
	}
	return best
}

// heir is the successor that the release of the last lease names.
func (s *State) heir() cluster.NodeID {
	if s.released.Term == 0 || s.released.Term < s.last.Term {
		return ""
	}
	return s.released.Successor
}

// standing returns the best living eligible other host, and the best of those
// that say to publish; nil if there is none.
func (s *State) standing() (best, claims *peer) {
	for i := range s.peers {
		p := &s.peers[i]
		if !p.Alive || !p.Eligible || p.Gone {
			continue
		}
		if best == nil || better(p.Priority, p.Node, best.Priority, best.Node) {
			best = p
		}
		if p.Publishing && (claims == nil || better(p.Priority, p.Node, claims.Priority, claims.Node)) {
			claims = p
		}
	}
	return best, claims
}

// wordEnds begins the wait anew when a living host says no more that it holds:
// perhaps it handed over. One that fell silent was waited for already.
func (m *machine) wordEnds() {
	if !m.duty.ByLease || m.holder.Holder != "" {
		return
	}
	if p := m.lookup(m.duty.Publisher); p != nil && p.Alive && m.declared() != p {
		m.unseen = m.now
	}
}

// publish tells the shell when the duty changed. It comes before the step's
// other actions: it relies on no promise, so none needs to be durable first.
func (m *machine) publish() {
	m.wordEnds()
	d := m.dutyAt(m.now)
	if d == m.duty {
		return
	}
	m.duty = d
	m.acts = slices.Insert(m.acts, 0, Action(d))
}
