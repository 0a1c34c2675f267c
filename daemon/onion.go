package daemon

import (
	"context"
	"net"
	"path/filepath"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/coord/join/door"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/daemon/stages"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/internal/sysclock"
	"github.com/skein-project/skein/membership"
	"github.com/skein-project/skein/offline"
	"github.com/skein-project/skein/onion"
	"github.com/skein-project/skein/proxy"
	"github.com/skein-project/skein/publisher/descriptor"
	entry "github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/web"
	"github.com/skein-project/skein/worker/artefact"
)

const (
	torGrace   = 12 * time.Second // how long tor may take to end
	onionGrace = 3 * time.Second
)

// onions are the tor of this host and its part in the onion addresses; both are
// nil without tor.
type onions struct {
	tor  *onion.LocalTor
	host *onion.Host
}

// newOnions makes the tor of the configuration, if it has one, and this host's
// part in the onion addresses.
func (g *ground) newOnions(id *identity, h *history, m *members) (o onions, err error) {
	if !g.cfg.Tor.Enabled {
		return o, nil
	}
	c := g.cfg.Tor
	if o.tor, err = onion.NewLocalTor(onion.TorOptions{
		Dir: filepath.Join(g.cfg.StateDir, "tor"), NodeDir: offline.NodeService(g.cfg.StateDir), Program: c.Program, Torrc: c.Torrc,
		Control: c.Control, Socks: c.Socks, Cookie: c.Cookie, Watchdog: g.o.TorWatchdog, Silence: g.timing.Suspect,
		Log: g.log, Registerer: g.reg,
	}); err != nil {
		return o, err
	}
	set := g.cfg.Onion
	if o.host, err = onion.New(onion.Options{
		Node: id.Node, Key: id.IDKey(), Client: id.OnionClient().PublicKey().Bytes(), Dir: filepath.Join(g.cfg.StateDir, "onion"),
		Site:      siteOf(set),
		Operators: set.Operators, Points: set.Points, SingleHost: set.SingleHost, Weight: func() uint32 { return g.conf().OnionWeight }, Now: sysclock.Boot,
		Tor: o.tor, Log: onionLog{h}, Cluster: onionCluster{id.roster, h.peers, m}, Logger: g.log, Registerer: g.reg,
	}); err != nil {
		return o, err
	}
	return o, nil
}

// siteOf is what the configuration says of what this host serves.
func siteOf(set config.Onion) onion.Site {
	return onion.Site{
		Targets: set.Targets, Mode: set.Mode, Port: set.Port, Host: set.Host,
		Check:       proxy.Check{Path: set.CheckPath, Low: set.CheckStatus.Low, High: set.CheckStatus.High},
		Connections: set.Connections, PerCircuit: set.PerCircuit, Body: set.BodyBytes, BodyRate: set.BodyRate, Answer: set.Answer, Idle: set.Idle,
	}
}

// start starts this host's part in the onion addresses; tor runs already.
// serves says that it has something to serve. The keeper passes joins on that
// come in through an address of the cluster.
func (o onions) start(ctx context.Context, l *stages.Sequence, serves bool, keeper *door.Keeper) error {
	if o.host == nil {
		return nil
	}
	if serves {
		p, err := o.host.Proxy(ctx, keeper, door.PathPrefix)
		if err != nil {
			return err
		}
		l.Start(stages.Stage{Name: "onion proxy", Run: p.Run, Grace: onionGrace})
	}
	l.Start(stages.Stage{Name: "onion", Run: o.host.Run, Stop: o.host.Leave, Grace: onion.LeaveTime + onionGrace})
	return nil
}

// servePage serves this host's page at the onion address that its operators find.
func (o onions) servePage(ctx context.Context, l *stages.Sequence, inside *entry.Inside) error {
	if o.host == nil {
		return nil
	}
	at, err := o.host.ListenOperators(ctx)
	if at == nil || err != nil {
		return err
	}
	h := page(inside, "onion.operators", "", func() []string { return []string{o.host.Status().OperatorAddress} })
	l.Start(stages.Stage{Name: "operators' page", Grace: time.Second, Run: func(ctx context.Context) error { return web.Serve(ctx, at, h) }})
	return nil
}

// newDoor makes what passes joins on that come in through an onion address of
// the cluster.
func (g *ground) newDoor(id *identity, p *peers) (*door.Keeper, error) {
	return door.New(door.Options{
		Secret: id.ClusterSecret(), Sponsors: id.roster.Sponsors, Dial: p.dialer(door.Proto), Logger: g.log, Registerer: g.reg,
	})
}

// onionLog is the event log as package onion needs it.
type onionLog struct{ *history }

func (l onionLog) Onions() (list []state.Onion) {
	l.View(func(s *state.State) { list = s.Onions() })
	return list
}

func (l onionLog) Onion(a descriptor.Address) (o state.Onion) {
	l.View(func(s *state.State) { o = s.Onion(a) })
	return o
}

// LastTerm is the highest term in the log.
func (l onionLog) LastTerm() cluster.Term { return l.lastTerm() }

// Note queues an event.
func (l onionLog) Note(kind event.Kind, body any) { l.journal.Note(kind, body) }

// Append appends an event before it returns.
func (l onionLog) Append(ctx context.Context, kind event.Kind, body any) error {
	_, err := l.journal.Append(ctx, kind, body)
	return err
}

// onionCluster is membership and coordination as package onion needs them.
type onionCluster struct {
	roster  *membership.Roster
	peers   *peers
	members *members
}

func (c onionCluster) Members() []cluster.Member { return c.roster.Members() }

func (c onionCluster) Invited(now time.Time) [][32]byte {
	if c.members.sponsor == nil {
		return nil // not made yet: the first services begin before the mesh
	}
	if invites := c.members.sponsor.Invites(); invites != nil {
		return invites.OnionClients(now)
	}
	return nil
}

func (c onionCluster) PublishShare(pieces [][]byte, at time.Time) error {
	return c.peers.svc.PublishShare(pieces, at)
}

func (c onionCluster) ReportBackends(list []wire.Backend) { c.peers.svc.ReportBackends(list) }

func (c onionCluster) View() onion.View {
	v := c.peers.svc.View()
	out := onion.View{Large: len(v.Members) > coord.MaxDirect, Split: v.Lease.Config.Split(), Members: make([]onion.Member, len(v.Members))}
	for i, m := range v.Members {
		out.Members[i] = onion.Member{
			Node: m.Node, Priority: m.Priority, Health: m.Health, Pieces: m.Share.Pieces, Digest: m.Share.Digest, Known: m.Share.Known,
			Backends: m.Backends,
		}
	}
	return out
}

// fallback is how other hosts are reached when the mesh does not work, nil
// without tor.
func (o onions) fallback(ctx context.Context, id *identity) (*transport.Fallback, error) {
	if o.tor == nil {
		return nil, nil
	}
	f := &transport.Fallback{
		Bulk: []string{artefact.Proto},
		Dial: func(ctx context.Context, to cluster.NodeID, address string) (net.Conn, error) {
			return o.tor.DialMember(ctx, "peer "+string(to), address, onion.CoordPort, id.OnionClient())
		},
	}
	if !o.tor.Own() {
		return f, nil
	}
	var err error
	f.Listener, err = o.tor.Listen(ctx, onion.CoordPort)
	return f, err
}
