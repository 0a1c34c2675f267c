package daemon

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/mesh/topo"
)

// Periods of the planner.
const (
	// planEvery is how often the plan is made anew although nobody asked:
	// interfaces and routes of this machine come and go unannounced.
	planEvery = 10 * time.Second
	// planAgain is the pause after a device refused the plan.
	planAgain = time.Second
)

// planner makes the mesh device, the endpoint cache and the names file follow
// the membership. Its goroutine is the only one that sets the device.
type planner struct {
	n *node
	// kick gets a value when the plan may have changed; capacity 1, a full one
	// already wakes.
	kick chan struct{}
	// jobs run in the planner's goroutine; capacity 0, the sender waits.
	jobs chan func(context.Context)
	// limit is the packet size that a black hole left, 0 if none did.
	limit atomic.Int64

	cache     *endpointCache
	applied   topo.Desired
	current   bool   // the device is as applied says
	conflicts string // the last ones told
	names     string // the last trouble told
}

func newPlanner(n *node) *planner {
	cache, err := openEndpoints(n.cfg.StateDir)
	if err != nil {
		n.log.Warn().Err(err).Msg("cached endpoints not used")
	}
	return &planner{n: n, kick: make(chan struct{}, 1), jobs: make(chan func(context.Context)), cache: cache}
}

// wake asks for a new plan, soon.
func (p *planner) wake() {
	select {
	case p.kick <- struct{}{}:
	default:
	}
}

// do runs f in the planner's goroutine and then plans anew.
func (p *planner) do(ctx context.Context, f func(context.Context) error) error {
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

// run keeps planning until ctx ends, and then saves the cache.
func (p *planner) run(ctx context.Context) error {
	tick := time.NewTicker(planEvery)
	defer tick.Stop()
	again := time.NewTimer(planAgain)
	defer again.Stop()
	defer p.remember()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-p.jobs:
			f(ctx)
			continue
		case <-tick.C:
			p.remember()
		case <-p.kick:
		case <-again.C:
			if p.current {
				continue
			}
		}
		if err := p.apply(ctx); err != nil {
			p.n.log.Error().Err(err).Msg("mesh does not follow the membership")
			again.Reset(planAgain)
		}
	}
}

// remember saves where the peers are reached.
func (p *planner) remember() {
	p.cache.learn(p.n.mesh.Observe())
	p.cache.keep(func(id cluster.NodeID) bool { _, ok := p.n.member(id); return ok })
	if err := p.cache.save(); err != nil {
		p.n.log.Warn().Err(err).Msg("endpoints not saved")
	}
}

// setMeshTime bounds one change of the mesh device; it is below the time that
// the planner has to stop.
const setMeshTime = 2 * time.Second

// firstMeshTime bounds the first change, of a whole device on a machine that
// may be busy with its boot. Without it there is no daemon.
const firstMeshTime = 30 * time.Second

// apply plans the device anew and makes it so.
func (p *planner) apply(ctx context.Context) error { return p.applyWithin(ctx, setMeshTime) }

func (p *planner) applyWithin(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	p.writeNames()
	want, ok := p.plan()
	if !ok {
		return nil // this host is a member no more: the device stays as it was
	}
	if p.current && reflect.DeepEqual(want, p.applied) {
		return nil
	}
	p.current = false
	if err := p.n.mesh.Set(ctx, want); err != nil {
		return err
	}
	p.applied, p.current = want, true
	return nil
}

// plan is the device that this host should have.
func (p *planner) plan() (topo.Desired, bool) {
	n := p.n
	conf := n.conf()
	self, ok := n.member(n.id.Node)
	if !ok {
		return topo.Desired{}, false
	}
	key := n.mesh.Key()
	self.WGPub = key[:]
	in := topo.Input{
		Self: self, Members: n.memberList(), Static: conf.Mesh.Peers, Cached: p.cache.known, Observed: n.observed(),
		Port: n.cfg.Mesh.Listen.Port(),
		// Now stays 0: a peer that announced another key has it once it shows a
		// handshake of it, or announces it as its own, never by the clock.
	}
	in.Underlay, in.Routes = p.networks()
	want, conflicts := topo.Plan(in)
	want.MTU = p.mtu(conf.Mesh.MTU, want.Peers)
	p.tell(conflicts)
	return want, true
}

// tell warns about conflicts, once each time that they change.
func (p *planner) tell(conflicts []topo.Conflict) {
	var all []string
	for _, c := range conflicts {
		all = append(all, c.String())
	}
	if text := strings.Join(all, "; "); text != p.conflicts {
		p.conflicts = text
		for _, c := range conflicts {
			p.n.log.Warn().Str("peer", string(c.Loser)).Stringer("conflict", c).Msg("member is no mesh peer")
		}
	}
}

// networks are those around this machine. If they cannot be read, all
// endpoints count the same.
func (p *planner) networks() (addrs, routes []netip.Prefix) {
	u, err := mesh.ReadUnderlay(p.n.mesh.Interface())
	if err != nil {
		return nil, nil
	}
	own := p.n.meshPrefixes()
	inMesh := func(q netip.Prefix) bool { return within(q.Addr(), own) }
	return slices.DeleteFunc(u.Addrs, inMesh), slices.DeleteFunc(u.Routes, inMesh)
}

// observed is where other hosts see the members.
func (n *node) observed() map[cluster.NodeID][]netip.AddrPort {
	if n.coord == nil {
		return nil // the first plan, before anybody was heard
	}
	out := map[cluster.NodeID][]netip.AddrPort{}
	for _, m := range n.coord.View().Members {
		if len(m.Observed) > 0 {
			out[m.Node] = m.Observed
		}
	}
	return out
}

// mtu is the packet size inside the mesh: the configured one, or what the ways
// to the peers allow; a black hole that was found limits both.
func (p *planner) mtu(configured int, peers []topo.Peer) int {
	mtu := configured
	if mtu == 0 {
		mtu = p.autoMTU(peers)
	}
	if limit := int(p.limit.Load()); limit != 0 {
		mtu = min(mtu, limit)
	}
	return mtu
}

// autoMTU is what the ways to the peers allow: to where each is reached now,
// else to the first place where it may be.
func (p *planner) autoMTU(peers []topo.Peer) int {
	now := p.n.mesh.Endpoints()
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
		size, err := mesh.PathMTU(addr)
		if err != nil {
			continue // not reachable from here, so no packet takes that way
		}
		paths = append(paths, topo.Path{MTU: size, V6: addr.Is6()})
	}
	return topo.MTU(paths)
}

// probeMTU is the packet size that coordination tries, 0 for none.
func (n *node) probeMTU() int {
	if !n.conf().Mesh.ProbeMTU {
		return 0
	}
	return n.mesh.MTU()
}

// onBlackhole shrinks the packets of the mesh: full ones do not reach peer.
func (n *node) onBlackhole(peer cluster.NodeID, from, to int) {
	n.planner.limit.Store(int64(to))
	n.planner.wake()
	n.log.Warn().Str("peer", string(peer)).Int("from", from).Int("to", to).Msg("full packets vanish: mesh packets shrink")
	n.note(cluster.KindMTUBlackhole, cluster.MTUBlackhole{Peer: peer, From: from, To: to})
}

// writeNames keeps the names file, if one is wanted.
func (p *planner) writeNames() {
	file := p.n.conf().Mesh.NamesFile
	if file == "" {
		return
	}
	trouble := ""
	if err := writeNames(file, p.n.clusterName(), p.n.memberList()); err != nil {
		trouble = err.Error()
		if trouble != p.names {
			p.n.log.Warn().Err(err).Msg("names of the members not written")
		}
	}
	p.names = trouble
}

// interfaces lists the addresses of this machine outside the mesh.
func (n *node) interfaces() []netip.Addr {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	own := n.meshPrefixes()
	var out []netip.Addr
	for _, a := range addrs {
		ipnet, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if addr, ok := netip.AddrFromSlice(ipnet.IP); ok && !within(addr.Unmap(), own) {
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
