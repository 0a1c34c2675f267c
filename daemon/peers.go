package daemon

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/relief"
)

// peers asks the coordination service for the parts that are made before it,
// like the log and the worker. They do not run until all exist, so nobody asks
// too early but where svc is compared with nil.
type peers struct {
	self cluster.NodeID
	svc  *coord.Service // nil: not made yet
	// relief is how loaded this host is; nil: not known yet
	relief *relief.Relief
}

// dialer opens streams of one protocol.
func (p *peers) dialer(proto string) func(context.Context, cluster.NodeID) (net.Conn, error) {
	return func(ctx context.Context, to cluster.NodeID) (net.Conn, error) { return p.svc.Dial(ctx, to, proto) }
}

func (p *peers) view() *coord.View                  { return p.svc.View() }
func (p *peers) rtt(n cluster.NodeID) time.Duration { m, _ := p.svc.View().Member(n); return m.RTT }
func (p *peers) mayAct(t cluster.Term) bool         { return p.svc.MayAct(t) }
func (p *peers) promised() cluster.Term             { return p.svc.PromisedTerm() }

// voterTerm is the lowest term for which this host acknowledges anything to the
// log.
func (p *peers) voterTerm() cluster.Term { return p.svc.VoterTerm() }

// voters is the configuration of voters as this host knows it.
func (p *peers) voters() cluster.VoterConfig { return p.svc.View().Lease.Config }

// lease is what forwarded operations must know of the lease.
func (p *peers) lease() forward.Lease {
	l := p.svc.View().Lease
	return forward.Lease{Holder: l.Holder, Holding: l.Role == cluster.RoleHolder}
}

// unaware lists the members that live and do not know events of a kind.
func (p *peers) unaware(kind event.Kind) []cluster.NodeID { return p.svc.View().Unaware(kind) }

// checkHolder refuses a scheduler that contradicts the lease as this host sees
// it. A holder that this host has not heard of yet is let in: the worker's own
// terms fence it, and a refusal would cost failover time.
func (p *peers) checkHolder(from cluster.NodeID, term cluster.Term) error {
	l := p.svc.View().Lease
	if l.Holder != "" && l.Holder != from && l.Term >= term {
		return fmt.Errorf("%s holds term %d, not %s term %d", l.Holder, l.Term, from, term)
	}
	return nil
}

// reachable lists the other members that are alive, the best first.
func (p *peers) reachable() []cluster.NodeID { return p.in(cluster.Alive) }

// logOf is what a member said of its event log a moment ago.
func (p *peers) logOf(node cluster.NodeID) (digest [16]byte, ok bool) {
	m, known := p.svc.View().Member(node)
	return m.LogDigest, known && m.LogDigest != [16]byte{}
}

// owners lists who may have an artefact: hosts that are alive first, then those
// that this host has not heard yet or not lately.
func (p *peers) owners() []cluster.NodeID {
	return append(p.reachable(), p.in(cluster.Joining, cluster.Suspect)...)
}

// in lists the other members in one of these states.
func (p *peers) in(states ...cluster.Health) []cluster.NodeID {
	var out []cluster.NodeID
	for _, m := range p.svc.View().Members {
		if m.Node != p.self && slices.Contains(states, m.Health) {
			out = append(out, m.Node)
		}
	}
	return out
}

// sponsors lists the other sponsors that are alive, the best first.
func (p *peers) sponsors() []cluster.NodeID {
	v := p.svc.View()
	return slices.DeleteFunc(p.reachable(), func(id cluster.NodeID) bool {
		m, ok := v.Member(id)
		return !ok || !slices.Contains(m.Caps, member.CapSponsor)
	})
}

// observed is where other hosts see the members.
func (p *peers) observed() map[cluster.NodeID][]netip.AddrPort {
	if p.svc == nil {
		return nil // the first plan of the mesh, before anybody was heard
	}
	out := map[cluster.NodeID][]netip.AddrPort{}
	for _, m := range p.svc.View().Members {
		if len(m.Observed) > 0 {
			out[m.Node] = m.Observed
		}
	}
	return out
}
