package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"

	"github.com/skein-project/skein/backend"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/store"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/breaker"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/internal/sysclock"
	"github.com/skein-project/skein/membership"
	"github.com/skein-project/skein/membership/deviceplan"
	"github.com/skein-project/skein/membership/voters"
	"github.com/skein-project/skein/relief"
)

// newCoordination makes the coordination service on the mesh, whose device runs
// already. m is made afterwards, before the service runs.
func (g *ground) newCoordination(
	ctx context.Context, id *identity, h *history, d device, w *work, o onions, m *members,
) (*coord.Service, error) {
	self, ok := id.roster.Self()
	if !ok {
		return nil, fmt.Errorf("no record of %s in %s", id.Node, g.cfg.StateDir)
	}
	bound := self.MeshAddr()
	at := netip.AddrPortFrom(bound, coord.Port)
	packets, err := d.ListenPacket(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("mesh socket: %w", err)
	}
	listener, err := d.Listen(ctx, at)
	if err != nil {
		return nil, fmt.Errorf("mesh socket: %w", err)
	}
	root, err := g.rootKey(id)
	if err != nil && !durable.IsDamaged(err) {
		return nil, err
	}
	founder := root != nil || err != nil
	fallback, err := o.fallback(ctx, id)
	if err != nil {
		return nil, err
	}
	f := &follower{
		peers: h.peers, roster: id.roster, planner: d.planner, sched: w.sched, beliefs: h.beliefs, members: m,
		bound: bound, finish: g.finish, log: g.log,
	}
	return coord.New(coord.Options{
		Self: id.Node, Key: id.IDKey(), Verifier: id.Verifier(), Records: id.records,
		Store: store.New(g.cfg.StateDir, id.Cluster, id.Node), Boot: coord.MarkBoot(id.boot, rand.Uint32()), Founder: founder,
		Secret:     id.ClusterSecret(),
		PacketConn: packets, Listener: listener, DialTCP: d.Dial, Fallback: fallback,
		MaxVoters: g.cfg.Lease.MaxVoters, LastTerm: h.lastTerm(),
		Profile: g.cfg.Lease.Profile, Mode: g.cfg.Lease.Mode, Tolerance: g.conf().Tolerance,
		Observed: d.Endpoints, Interfaces: func() []netip.Addr { return deviceplan.Interfaces(id.networks()) },
		MTU: d.planner.ProbeMTU, OnBlackhole: d.planner.Blackhole, OnDuplicate: h.onDuplicate,
		Now: sysclock.Boot, Wall: g.o.Wall, Version: g.o.Version, Log: h.summary,
		Local:    func() coord.Local { return g.local(w, o) },
		OnChange: f.onChange, OnMembers: f.onMembers, OnHealth: f.onHealth,
		OnLoop: func() {
			g.notified(g.notify.Watchdog())
			o.tor.Beat()
		},
		Logger: g.log, Registerer: g.reg,
	})
}

// local is what heartbeats say of this host.
func (g *ground) local(w *work, o onions) coord.Local {
	v := w.worker.View()
	l := coord.Local{Slots: uint32(v.Slots), Busy: uint32(len(v.Running)), Draining: !g.conf().Eligible, Load: w.relief.Load()}
	if o.host != nil {
		l.IntroPoints = o.host.Points()
		if at := o.host.LastPublished(); at > 0 {
			l.LastPublish = &at
		}
	}
	return l
}

// newRouter makes what carries operations to other hosts. Until members are
// built it must not be asked.
func (g *ground) newRouter(id *identity, p *peers, m *members, relief *relief.Relief) (*forward.Router, error) {
	return forward.New(forward.Options{
		Self: id.Node, Dial: relief.Dialer(breaker.Forward, p.dialer(forward.Proto)), Lease: p.lease, IsSponsor: id.roster.IsSponsor, Sponsors: p.sponsors, Sponsoring: func() bool { return m.sponsor.Active() },
		Version: func(id cluster.NodeID) string { m, _ := p.svc.View().Member(id); return m.Version },
		RTT:     p.rtt, Now: sysclock.Boot, Problem: backend.ProblemOf, Enter: relief.Enter, Logger: g.log, Registerer: g.reg,
	})
}

// handle registers what members do for other hosts.
func (m *members) handle(g *ground, h *history, r *forward.Router) {
	p := h.peers
	vs := voters.New(voters.Options{Coord: p.svc, Record: h.journal.Record, Logger: g.log})
	forward.Handle(r, forward.Conflict, m.conflicts.Accept)
	forward.Handle(r, forward.Depart, membership.NewDepartures(p.self, p.svc).Depart)
	forward.Handle(r, forward.Remove, m.sponsor.Remove)
	forward.Handle(r, forward.Renew, m.sponsor.RenewFor)
	forward.Handle(r, forward.ShowVoters, vs.Show)
	forward.Handle(r, forward.Voters, vs.Set)
}
