package coord

import (
	"maps"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/clocks"
	"github.com/skein-project/skein/coord/distance"
	"github.com/skein-project/skein/coord/election"
	"github.com/skein-project/skein/coord/endpoint"
	"github.com/skein-project/skein/coord/gossip"
	"github.com/skein-project/skein/coord/health"
	"github.com/skein-project/skein/coord/ownlog"
	"github.com/skein-project/skein/coord/share"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

// staleAfter is how long a member may be silent before it is called stale.
const staleAfter = 5 * time.Minute

// viewMaker puts a view together from what the parts of the loop know.
type viewMaker struct {
	version    string
	profile    cluster.Profile
	hosts      *hosts
	local      func() Local
	health     *health.Monitor
	net        *transport.Transport
	elector    *election.Elector
	records    *gossip.Records
	shares     *share.Shares
	endpoints  *endpoint.Endpoints
	log        *ownlog.Log
	clocks     *clocks.Clocks
	duplicates *duplicates
	far        *distance.Distances
	m          *metrics
}

// view is what this host knows now. It updates the gauges that say as much.
func (v *viewMaker) view(now time.Duration) *View {
	st := v.elector.Signed()
	var offsets []time.Duration
	for _, p := range v.hosts.peers {
		if off, ok := p.skewed(v.net, now); ok {
			offsets = append(offsets, off)
		}
	}
	out := &View{
		Self: v.hosts.self.Node, At: now, Version: v.version, Profile: v.profile, Digest: v.records.Digest(),
		Lease: st, Publisher: st.Publisher, Publishing: v.elector.Authority().MayPublish(), LocalHealth: v.health.Score(),
		Failing: maps.Clone(v.elector.Failing()), Members: make([]MemberView, 0, len(v.hosts.members)),
		PublicEndpoint: v.endpoints.Public().At, NAT: v.endpoints.Public().NAT, Clock: v.clocks.View(offsets), Zones: v.far.Zones(),
	}
	stale := 0
	counts := make(map[cluster.Health]int, 5)
	for _, m := range v.hosts.members {
		mv := v.member(m, st, now)
		if m.Node != v.hosts.self.Node {
			counts[mv.Health]++
		}
		if mv.Stale {
			stale++
		}
		out.Members = append(out.Members, mv)
	}
	for _, h := range []cluster.Health{cluster.Joining, cluster.Alive, cluster.Suspect, cluster.Dead} {
		v.m.peers.WithLabelValues(string(h)).Set(float64(counts[h]))
	}
	v.m.stale.Set(float64(stale))
	return out
}

func (v *viewMaker) member(m cluster.Member, st lease.Status, now time.Duration) MemberView {
	mv := MemberView{Member: m, Role: cluster.RoleStandby}
	switch {
	case m.Node == st.Holder:
		mv.Role = cluster.RoleHolder
	case m.Witness:
		mv.Role = cluster.RoleWitness
	}
	if m.Node == v.hosts.self.Node {
		own := v.log.Newest()
		mv.Health, mv.LastHeard, mv.Heard, mv.CaughtUp = cluster.Alive, now, true, true
		mv.Version, mv.Level, mv.Profile, mv.Term, mv.TermHolder = v.version, event.Level, v.profile, st.Term, st.Holder
		mv.Publishing, mv.Abstains = v.elector.Authority().MayPublish(), st.Abstaining != ""
		mv.Eligible, mv.LogEvents, mv.Load = v.elector.Eligible(), own.Events, v.local().Load
		mv.Share, mv.Backends = v.shares.Own()
		mv.Duplicate = v.duplicates.own
		return mv
	}
	mv.Health, mv.Stopped = v.health.Of(m.Node), v.health.HasStopped(m.Node)
	mv.LastHeard, mv.Heard = v.health.LastHeard(m.Node)
	p := v.hosts.peers[m.Node]
	if p == nil {
		return mv
	}
	mv.Answered = p.rtt.Answered() > 0
	way, since := v.net.Paths().Of(m.Node, mv.Health)
	mv.Path, mv.PathSince = string(way), since
	mv.Duplicate = p.twin.found
	if mv.Health != cluster.Dead {
		mv.Share, mv.Backends = v.shares.Of(m.Node)
	}
	mv.RTT, mv.Incompatible, mv.PathMTU, mv.Observed = p.rtt.Mean(), p.compat.why, p.path.Proven(), v.endpoints.Observed(m)
	mv.Flaps = v.endpoints.Flaps(m, now)
	// In a large cluster hosts hear each other rarely.
	mv.Stale = now-p.lastSign(v.health) >= staleAfter && mv.Health != cluster.Alive
	off, ok := p.skewed(v.net, now)
	if mv.SkewKnown = ok; ok && max(off, -off) > time.Second {
		mv.Skew = off // one second is how messages are rounded
	}
	mv.Synced = p.beatAt > 0 && p.beat.Members == wire.Digest(v.records.Digest())
	mv.Version, mv.Level, mv.Profile, mv.Term, mv.TermHolder = p.beat.Version, p.beat.Level, p.beat.Profile, p.beat.Term, p.beat.Holder
	mv.Publishing, mv.Abstains = p.core.Publishing, p.core.Abstains
	mv.Eligible, mv.CaughtUp, mv.LogEvents, mv.Load = p.core.Eligible, p.core.CaughtUp, p.beat.LogEvents, p.beat.Load
	if now-p.beatAt <= v.log.Within() {
		mv.LogDigest = p.beat.Log
	}
	return mv
}
