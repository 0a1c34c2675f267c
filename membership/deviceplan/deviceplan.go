package deviceplan

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/discover/source"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/mesh/hostnet"
	"github.com/skein-project/skein/mesh/topo"
)

// Periods of the planner.
const (
	// planEvery is how often a new plan is made unasked: interfaces and routes
	// of this machine come and go unannounced.
	planEvery = 10 * time.Second
	// planAgain is the pause after the device refused a plan.
	planAgain = time.Second
	// removePause is how long the device keeps the peer of a host that was removed,
	// so that the datagrams that say so still reach that host.
	removePause = 250 * time.Millisecond
)

// Device is the mesh device.
type Device interface {
	Set(ctx context.Context, want topo.Desired) error
	Key() topo.Key
	MTU() int
	Interface() string
	Endpoints() map[cluster.NodeID]netip.AddrPort
	Observe() []mesh.PeerStatus
}

// Members is the membership as this host knows it.
type Members interface {
	Members() []cluster.Member
	Member(cluster.NodeID) (cluster.Member, bool)
}

// Settings are what a reload of the configuration may change.
type Settings struct {
	// Static are endpoints that the operator gives.
	Static map[cluster.NodeID][]netip.AddrPort
	MTU    int // 0: as large as the paths to the peers allow
	// ProbeMTU looks for paths that lose full packets.
	ProbeMTU bool
	// NamesFile gets the members' names and addresses; empty: none.
	NamesFile string
}

// Options are what a Planner needs.
type Options struct {
	Self        cluster.NodeID
	ClusterName string
	StateDir    string
	Port        uint16 // of the mesh
	// Networks are the addresses inside the mesh, over which no peer is reached.
	Networks []netip.Prefix
	Device   Device
	Members  Members
	Settings func() Settings
	// Observed is where other hosts see the members.
	Observed func() map[cluster.NodeID][]netip.AddrPort
	// Discover is where endpoints of peers are looked for that are all dead; none: nowhere.
	Discover []source.Source
	// WriteNames writes the names file.
	WriteNames func(file, clusterName string, members []cluster.Member) error
	// Note queues an event for the log.
	Note   func(event.Kind, any)
	Logger zerolog.Logger
}

// Planner makes the mesh device, the endpoint cache and the names file follow
// the membership. Its goroutine is the only one that sets the device.
type Planner struct {
	o Options
	// kick gets a value when the plan may have changed; capacity 1, a full one
	// already wakes.
	kick chan struct{}
	// jobs run in the planner's goroutine; capacity 0, the sender waits.
	jobs chan func(context.Context)
	// limit is the packet size that still passes a black hole, 0 if there is none.
	limit atomic.Int64

	cache     *endpointCache
	seeker    *seeker // nil: there is nowhere to look
	applied   topo.Desired
	current   bool   // the device is as applied says
	conflicts string // as last logged
	names     string // error of the names file as last logged
}

// New returns a Planner that sets nothing until Apply or Run is called.
func New(o Options) *Planner {
	cache, err := openEndpoints(o.StateDir)
	if err != nil {
		o.Logger.Warn().Err(err).Msg("cached endpoints not used")
	}
	p := &Planner{o: o, kick: make(chan struct{}, 1), jobs: make(chan func(context.Context)), cache: cache}
	p.seeker = newSeeker(o, p.Wake)
	return p
}

// Wake asks for a new plan, soon.
func (p *Planner) Wake() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// Do runs f in the planner's goroutine and then makes a new plan.
func (p *Planner) Do(ctx context.Context, f func(context.Context) error) error {
	done := make(chan error, 1)
	select {
	case p.jobs <- func(ctx context.Context) { done <- errors.Join(f(ctx), p.apply(ctx)) }:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run plans until ctx ends, and then saves the cache.
func (p *Planner) Run(ctx context.Context) error {
	tick := wait.NewTicker(planEvery)
	defer tick.Stop()
	again := time.NewTimer(planAgain)
	defer again.Stop()
	defer p.remember()
	if p.seeker != nil {
		finding, stop := context.WithCancel(ctx)
		var ended sync.WaitGroup
		ended.Go(func() { _ = p.seeker.finder.Run(finding) }) // ends with finding
		defer ended.Wait()
		defer stop()
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-p.jobs:
			f(ctx)
			continue
		case <-tick.C:
			tick.Next()
			p.remember()
		case <-p.kick:
			if p.drops() && wait.For(ctx, removePause) != nil {
				return ctx.Err()
			}
		case <-again.C:
			if p.current {
				continue
			}
		}
		if err := p.apply(ctx); err != nil {
			p.o.Logger.Error().Err(err).Msg("mesh device not brought in line with the membership")
			again.Reset(planAgain)
		}
	}
}

// drops reports whether the device has a peer that is no longer a member.
func (p *Planner) drops() bool {
	return slices.ContainsFunc(p.applied.Peers, func(peer topo.Peer) bool {
		_, ok := p.o.Members.Member(peer.Node)
		return !ok
	})
}

// remember saves where the peers are reached.
func (p *Planner) remember() {
	p.cache.learn(p.o.Device.Observe())
	p.cache.keep(func(id cluster.NodeID) bool { _, ok := p.o.Members.Member(id); return ok })
	if err := p.cache.save(); err != nil {
		p.o.Logger.Warn().Err(err).Msg("endpoints not saved")
	}
}

const (
	// setTime bounds one change of the device. It is below the time that the
	// planner has to stop.
	setTime = 2 * time.Second
	// firstTime bounds the first change, of a whole device on a machine that may
	// be busy booting. Without it there is no daemon.
	firstTime = 30 * time.Second
)

// StopTime is how long Run may take to end.
const StopTime = setTime + time.Second

// Apply makes the first plan, before Run, and returns once the device follows it.
func (p *Planner) Apply(ctx context.Context) error { return p.applyWithin(ctx, firstTime) }

// apply makes a new plan and brings the device in line with it.
func (p *Planner) apply(ctx context.Context) error { return p.applyWithin(ctx, setTime) }

func (p *Planner) applyWithin(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	p.writeNames()
	want, ok := p.plan()
	if !ok {
		return nil // no longer a member: the device stays as it was
	}
	if p.current && reflect.DeepEqual(want, p.applied) {
		return nil
	}
	p.current = false
	if err := p.o.Device.Set(ctx, want); err != nil {
		return err
	}
	p.applied, p.current = want, true
	return nil
}

// plan is the device that this host should have.
func (p *Planner) plan() (topo.Desired, bool) {
	set := p.o.Settings()
	self, ok := p.o.Members.Member(p.o.Self)
	if !ok {
		return topo.Desired{}, false
	}
	key := p.o.Device.Key()
	self.WGPub = key[:]
	in := topo.Input{
		Self: self, Members: p.o.Members.Members(), Static: set.Static, Cached: p.cache.known, Observed: p.o.Observed(),
		Port: p.o.Port,
		// Now stays 0: a peer that announced another key has it once it shows a
		// handshake of it, or announces it as its own, never by the clock.
	}
	in.Underlay, in.Routes = p.networks()
	want, conflicts := topo.Plan(in)
	want.Peers = p.seeker.seek(want.Peers, p.o.Device.Observe(), time.Now())
	want.MTU = p.mtu(set.MTU, want.Peers)
	p.report(conflicts)
	return want, true
}

// report warns about conflicts each time that they change.
func (p *Planner) report(conflicts []topo.Conflict) {
	var all []string
	for _, c := range conflicts {
		all = append(all, c.String())
	}
	if text := strings.Join(all, "; "); text != p.conflicts {
		p.conflicts = text
		for _, c := range conflicts {
			p.o.Logger.Warn().Str("peer", string(c.Loser)).Stringer("conflict", c).Msg("member left out of the mesh")
		}
	}
}

// networks are those around this machine. If they cannot be read, all
// endpoints count the same.
func (p *Planner) networks() (addrs, routes []netip.Prefix) {
	u, err := hostnet.ReadUnderlay(p.o.Device.Interface())
	if err != nil {
		return nil, nil
	}
	own := p.o.Networks
	inMesh := func(q netip.Prefix) bool { return within(q.Addr(), own) }
	return slices.DeleteFunc(u.Addrs, inMesh), slices.DeleteFunc(u.Routes, inMesh)
}

// mtu is the packet size inside the mesh: the configured one, or what the paths
// to the peers allow. A known black hole limits both.
func (p *Planner) mtu(configured int, peers []topo.Peer) int {
	mtu := configured
	if mtu == 0 {
		mtu = p.autoMTU(peers)
	}
	if limit := int(p.limit.Load()); limit != 0 {
		mtu = min(mtu, limit)
	}
	return mtu
}

// autoMTU is what the paths to the peers allow: to where each is reached now,
// otherwise to its first candidate.
func (p *Planner) autoMTU(peers []topo.Peer) int {
	now := p.o.Device.Endpoints()
	var paths []topo.Path
	for _, peer := range peers {
		at, ok := now[peer.Node]
		if !ok && len(peer.Endpoints) > 0 {
			at, ok = peer.Endpoints[0], true
		}
		if !ok {
			continue
		}
		addr := at.Addr().Unmap()
		size, err := hostnet.PathMTU(addr)
		if err != nil {
			continue // not reachable from here, so no packet takes that path
		}
		paths = append(paths, topo.Path{MTU: size, V6: addr.Is6()})
	}
	return topo.MTU(paths)
}

// ProbeMTU is the packet size that coordination tries, 0 for none.
func (p *Planner) ProbeMTU() int {
	if !p.o.Settings().ProbeMTU {
		return 0
	}
	return p.o.Device.MTU()
}

// Blackhole reduces the packet size of the mesh: full packets do not reach peer.
func (p *Planner) Blackhole(peer cluster.NodeID, from, to int) {
	p.limit.Store(int64(to))
	p.Wake()
	p.o.Logger.Warn().Str("peer", string(peer)).Int("from", from).Int("to", to).Msg("full packets are lost on the way: mesh MTU reduced")
	p.o.Note(event.KindMTUBlackhole, event.MTUBlackhole{Peer: peer, From: from, To: to})
}

// writeNames keeps the names file, if one is wanted.
func (p *Planner) writeNames() {
	file := p.o.Settings().NamesFile
	if file == "" {
		return
	}
	trouble := ""
	if err := p.o.WriteNames(file, p.o.ClusterName, p.o.Members.Members()); err != nil {
		trouble = err.Error()
		if trouble != p.names {
			p.o.Logger.Warn().Err(err).Msg("names of the members not written")
		}
	}
	p.names = trouble
}

// Interfaces lists the addresses of this machine outside networks.
func Interfaces(networks []netip.Prefix) []netip.Addr {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []netip.Addr
	for _, a := range addrs {
		ipnet, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if addr, ok := netip.AddrFromSlice(ipnet.IP); ok && !within(addr.Unmap(), networks) {
			out = append(out, addr.Unmap())
		}
	}
	return out
}

// within reports whether one of the prefixes has addr.
func within(addr netip.Addr, prefixes []netip.Prefix) bool {
	for _, p := range prefixes {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
