package coord

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/mesh/topo"
)

// A path can carry small packets and swallow full ones. So each host sends to
// each host that it hears a heartbeat padded to the mesh's MTU, when it first
// hears it, when its endpoint changed, and again and again: about one such
// datagram per second and host in all, to each peer at least every 10 minutes
// and at most every 45 s, so that a hole that opens is found within a minute.
// What arrived is echoed in the heartbeats of the next seconds.
const (
	probeLook  = time.Second // between looks at what is due
	probeBurst = 20          // datagrams in one look
	probeWait  = 2 * time.Second
	// probeTries unanswered ones are a black hole, if something small was
	// answered since. The first try is one datagram, the second two, the third
	// three: the usual loss of packets is no black hole.
	probeTries = 3
	probeMin   = 45 * time.Second
	probeMax   = 10 * time.Minute
	// probeLarge is the time between such datagrams in a cluster of more hosts
	// than get heartbeats directly: there a hole is found by what it swallows.
	probeLarge = 20 * time.Second
	// probeEcho is how long the arrival of a probe is repeated; less than
	// probeMin, so that an old one answers no new one.
	probeEcho = 10 * time.Second
)

// Headers of a datagram inside the mesh.
const (
	udpOver4 = 28
	udpOver6 = 48
)

// probeState is about full packets to one peer.
type probeState struct {
	mtu    int           // that is being tried, 0: none yet
	proven int           // that arrived last
	tries  int           // unanswered
	sentAt time.Duration // last try
	next   time.Duration // not before
	got    gotProbe      // the last from that host
}

// gotProbe is a full packet that came.
type gotProbe struct {
	size uint32
	at   time.Duration
}

// probeSome sends what probes are due and judges those without an answer.
func (s *Service) probeSome(now time.Duration) {
	if s.o.MTU == nil || now < s.probeAt || s.removed {
		return
	}
	s.probeAt = now + probeLook
	mtu, budget := s.o.MTU(), probeBurst
	if mtu <= 0 {
		return
	}
	n := len(s.members)
	for i := range n {
		m := s.members[(s.rotate+i)%n] // all get their turn of the budget
		p := s.peers[m.Node]
		if p != nil && s.net.Paths().Onion(m.Node) {
			p.probe.tries = 0 // small ones get through, but another way
			continue
		}
		if p == nil || p.rtt.samples == 0 || s.detector.Health(m.Node) != cluster.Alive {
			continue
		}
		st := &p.probe
		if st.mtu != mtu {
			*st = probeState{mtu: mtu, proven: min(st.proven, mtu), got: st.got}
		}
		switch {
		case st.tries == 0 && now < st.next, st.tries > 0 && now-st.sentAt < probeWait:
		case st.tries < probeTries:
			if budget < st.tries+1 {
				continue
			}
			budget -= st.tries + 1
			s.sendProbe(p, m, now)
		case p.rtt.echoed > st.sentAt:
			s.blackhole(p, now)
		case now-st.sentAt > probeMin:
			st.tries = 0 // nothing at all gets through
		}
	}
}

// probeSize is the length of the datagram that fills a packet to m.
func probeSize(m cluster.Member, mtu int) int {
	size := mtu - udpOver4
	if transport.MeshAddr(m).Is6() {
		size = mtu - udpOver6
	}
	return min(size, wire.MaxProbe)
}

func (s *Service) sendProbe(p *peerState, m cluster.Member, now time.Duration) {
	st := &p.probe
	size := probeSize(m, st.mtu)
	if size <= wire.MaxDatagram {
		st.next = now + probeMax // every heartbeat proves as much
		return
	}
	for range st.tries + 1 {
		hb := s.ownBeat(p, now, false)
		hb.Probe = uint32(size)
		if err := s.net.SendPadded(m, hb, size); err != nil {
			return
		}
	}
	st.tries++
	st.sentAt = now
}

// onProbe notes a probe that came, and the answer to one of this host.
func (s *Service) onProbe(p *peerState, hb wire.Heartbeat, now time.Duration) {
	if hb.Probe != 0 {
		p.probe.got = gotProbe{size: hb.Probe, at: now}
	}
	st := &p.probe
	m, ok := s.net.Directory().Member(p.node)
	if !ok || st.tries == 0 || int(hb.ProbeEcho) != probeSize(m, st.mtu) {
		return
	}
	st.tries, st.proven = 0, st.mtu
	st.next = now + s.probePeriod()
}

// probePeriod is how long until the next probe of a path that is good.
func (s *Service) probePeriod() time.Duration {
	period := min(max(time.Duration(len(s.members))*time.Second, probeMin), probeMax)
	if s.swim.core.Active() {
		period = time.Duration(len(s.members)) * probeLarge
	}
	return period - time.Duration(s.o.Rand()*float64(period/10))
}

// blackhole says that full packets to p vanish.
func (s *Service) blackhole(p *peerState, now time.Duration) {
	st := &p.probe
	from := st.mtu
	to, ok := topo.StepDown(from)
	st.tries, st.next = 0, now+probeMin // unless the MTU changes before
	st.proven = 0
	s.dirty = true
	s.m.blackholes.Inc()
	if s.gate.Pass("blackhole/" + string(p.node)) {
		s.log.Warn().Str("peer", string(p.node)).Int("mtu", from).Int("to", to).
			Msg("full packets do not arrive while small ones do")
	}
	if f := s.o.OnBlackhole; f != nil && ok {
		node := p.node
		s.notifier.Notice(func() { f(node, from, to) })
	}
}
