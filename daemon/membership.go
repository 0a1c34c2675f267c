package daemon

import (
	"context"
	"math/rand/v2"
	"net"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/membership"
	"github.com/skein-project/skein/membership/deviceplan"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/mesh/hostsfile"
	"github.com/skein-project/skein/onion"
	"github.com/skein-project/skein/overload"
)

// members is what this host does as a member.
type members struct {
	conflicts *membership.Conflicts
	own       *membership.Own
	sponsor   *membership.Sponsor
}

// device is the mesh device and what plans it.
type device struct {
	*mesh.Mesh
	planner *deviceplan.Planner
}

// build makes what this host does as a member; t is nil without tor.
func (m *members) build(g *ground, id *identity, h *history, d device, router *forward.Router, t *onion.LocalTor, w *work) {
	p := h.peers
	depart := func(ctx context.Context, actor string, node cluster.NodeID) error {
		_, err := forward.AskHolder(ctx, router, forward.Depart, actor, forward.DepartNode{Node: node})
		return err
	}
	m.conflicts = membership.NewConflicts(membership.ConflictOptions{
		Table: p.svc.WithTable,
		Report: func(ctx context.Context, c event.MemberConflict) error {
			_, err := forward.AskHolder(ctx, router, forward.Conflict, "", c)
			return err
		},
		Note: h.journal.Note, Logger: g.log,
	})
	m.own = membership.NewOwn(membership.OwnOptions{
		Identity: id.Identity, StateDir: g.cfg.StateDir, Said: id.said, Epoch: id.epoch,
		Roster: id.roster, Coord: p.svc, Journal: h.journal,
		About:      func() (join.About, error) { return g.about(id) },
		Advertised: func() bool { return len(g.conf().Advertise) > 0 },
		Alive:      p.reachable,
		SetKey: func(ctx context.Context, id *join.Identity) error {
			return d.planner.Do(ctx, func(ctx context.Context) error { return d.SetKey(ctx, id.WGKey()) })
		},
		Depart: func(ctx context.Context, actor string) error { return depart(ctx, actor, id.Node) },
		Renew: func(ctx context.Context) (forward.Certificate, error) {
			return forward.AskSponsor(ctx, router, forward.Renew, "", forward.None{})
		},
		WaitStable: h.WaitStable, Ephemeral: g.cfg.Node.Ephemeral, Log: h, Drain: w.worker.Finish, End: g.finish, Heartbeat: g.timing.Heartbeat, Rand: rand.Float64, Logger: g.log,
	})
	so := membership.SponsorOptions{
		Identity: id.Identity, StateDir: g.cfg.StateDir, Listen: g.cfg.Join.Listen, CertLife: g.o.CertLife,
		Roster: id.roster, Coord: p.svc, Journal: h.journal, Log: h, Wall: g.o.Wall, Depart: depart, Others: p.sponsors,
		Handle: func(proto string, serve func(context.Context, cluster.NodeID, net.Conn)) {
			p.svc.Handle(proto, w.relief.Stream(overload.Status, serve))
		},
		SetOwner: func(ctx context.Context, actor string, set event.HostOwnerSet) error {
			_, err := forward.AskHolder(ctx, router, forward.HostOwner, actor, set)
			return err
		},
		Logger: g.log, Registerer: g.reg,
	}
	if t != nil && t.Own() {
		so.OnionListener = func(ctx context.Context) (net.Listener, error) { return t.Listen(ctx, onion.JoinPort) }
	}
	m.sponsor = membership.NewSponsor(so)
}

// newPlanner makes what keeps the mesh device as the membership wants it.
func (g *ground) newPlanner(id *identity, h *history, dev *mesh.Mesh) *deviceplan.Planner {
	return deviceplan.New(deviceplan.Options{
		Self: id.Node, ClusterName: id.clusterName(), StateDir: g.cfg.StateDir, Port: g.cfg.Mesh.Listen.Port(),
		Networks: id.networks(), Device: dev, Members: id.roster, Observed: h.peers.observed, Discover: g.cfg.Join.Discover,
		Settings: func() deviceplan.Settings {
			c := g.conf()
			return deviceplan.Settings{Static: c.Peers, MTU: c.MTU, ProbeMTU: c.ProbeMTU, NamesFile: c.NamesFile}
		},
		WriteNames: hostsfile.Write, Note: h.journal.Note, Logger: g.log,
	})
}
