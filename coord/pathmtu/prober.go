package pathmtu

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/loglimit"
	"github.com/skein-project/skein/mesh/topo"
)

const (
	lookEvery  = time.Second // between looks at what is due
	burst      = 20          // datagrams in one look
	answerTime = 2 * time.Second
	// maxTries unanswered ones are a black hole, if something small was
	// answered since. The first try is one datagram, the second two, the third
	// three: the usual loss of packets is no black hole.
	maxTries  = 3
	minPeriod = 45 * time.Second
	maxPeriod = 10 * time.Minute
	// largePeriod is the time between such datagrams in a cluster of more hosts
	// than get heartbeats directly: there a hole is found by what it drops.
	largePeriod = 20 * time.Second
	// echoFor is how long the arrival of a probe is repeated; less than
	// minPeriod, so that an old one answers no new one.
	echoFor = 10 * time.Second
)

// Headers of a datagram inside the mesh.
const (
	udpOver4 = 28
	udpOver6 = 48
)

// Peer is what Look must know of another host.
type Peer struct {
	*Path
	Onion    bool          // it is reached over onion services
	Answers  bool          // it is alive, and its round trip was measured since its path changed
	Answered time.Duration // when the newest heartbeat that it answered was sent
}

// Options are what a Prober is made of. All but MTU and Registerer must be set.
type Options struct {
	MTU  func() int // of the mesh device, 0 if unknown; nil: nothing is probed
	Rand func() float64
	// Peer returns what is known of another member, Member a member by its name. Large says that the cluster has more hosts than get
	// heartbeats directly.
	Peer   func(cluster.NodeID) (Peer, bool)
	Member func(cluster.NodeID) (cluster.Member, bool)
	Large  func() bool
	// Send sends a heartbeat padded to size bytes over the mesh. Found is called
	// with a black hole for packets of MTU from, and the smaller MTU to change to,
	// which is from if there is none.
	Send  func(m cluster.Member, size int, now time.Duration) error
	Found func(node cluster.NodeID, from, to int)

	Logger     zerolog.Logger
	Gate       *loglimit.Gate
	Registerer prometheus.Registerer // optional
}

// Prober probes the paths to all members.
type Prober struct {
	o     Options
	holes prometheus.Counter
	at    time.Duration // next look
}

// New registers the metrics.
func New(o Options) (*Prober, error) {
	r := &Prober{o: o, holes: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "skein_coord_blackholes_total", Help: "Times full packets to a peer vanished while small ones did not.",
	})}
	if o.Registerer != nil {
		if err := o.Registerer.Register(r.holes); err != nil {
			return nil, fmt.Errorf("register metrics of path MTUs: %w", err)
		}
	}
	return r, nil
}

// Look sends the probes that are due and judges those without an answer. Round
// differs from one round of heartbeats to the next, so that all members get their
// turn.
func (r *Prober) Look(now time.Duration, members []cluster.Member, round int) {
	if r.o.MTU == nil || now < r.at {
		return
	}
	r.at = now + lookEvery
	mtu, budget := r.o.MTU(), burst
	if mtu <= 0 {
		return
	}
	n := len(members)
	for i := range n {
		m := members[(round+i)%n]
		p, ok := r.o.Peer(m.Node)
		switch {
		case !ok:
			continue
		case p.Onion:
			p.tries = 0 // small ones get through, but another way
			continue
		case !p.Answers:
			continue
		}
		if p.mtu != mtu {
			*p.Path = Path{mtu: mtu, proven: min(p.proven, mtu), got: p.got}
		}
		switch {
		case p.tries == 0 && now < p.next, p.tries > 0 && now-p.sentAt < answerTime:
		case p.tries < maxTries:
			if budget < p.tries+1 {
				continue
			}
			budget -= p.tries + 1
			r.send(p.Path, m, now)
		case p.Answered > p.sentAt:
			r.blackhole(p.Path, m.Node, now)
		case now-p.sentAt > minPeriod:
			p.tries = 0 // nothing at all gets through
		}
	}
}

// fill is the length of the datagram that fills a packet to m.
func fill(m cluster.Member, mtu int) int {
	size := mtu - udpOver4
	if m.MeshAddr().Is6() {
		size = mtu - udpOver6
	}
	return min(size, wire.MaxProbe)
}

func (r *Prober) send(p *Path, m cluster.Member, now time.Duration) {
	size := fill(m, p.mtu)
	if size <= wire.MaxDatagram {
		p.next = now + maxPeriod // every heartbeat proves as much
		return
	}
	for range p.tries + 1 {
		if err := r.o.Send(m, size, now); err != nil {
			return
		}
	}
	p.tries++
	p.sentAt = now
}

// Heard takes a heartbeat of node, which may be a probe itself and may answer one of
// this host's. Members is the size of the cluster.
func (r *Prober) Heard(p *Path, node cluster.NodeID, hb *wire.Heartbeat, members int, now time.Duration) {
	if hb.Probe != 0 {
		p.got = arrival{size: hb.Probe, at: now}
	}
	if p.tries == 0 {
		return
	}
	if m, ok := r.o.Member(node); !ok || int(hb.ProbeEcho) != fill(m, p.mtu) {
		return
	}
	p.tries, p.proven = 0, p.mtu
	p.next = now + r.period(members)
}

// period is how long until the next probe of a path that is good.
func (r *Prober) period(members int) time.Duration {
	period := min(max(time.Duration(members)*time.Second, minPeriod), maxPeriod)
	if r.o.Large() {
		period = time.Duration(members) * largePeriod
	}
	return period - time.Duration(r.o.Rand()*float64(period/10))
}

// blackhole says that full packets to node vanish.
func (r *Prober) blackhole(p *Path, node cluster.NodeID, now time.Duration) {
	from := p.mtu
	to, _ := topo.StepDown(from)
	p.tries, p.next = 0, now+minPeriod // unless the MTU changes before
	p.proven = 0
	r.holes.Inc()
	if r.o.Gate.Pass("blackhole/" + string(node)) {
		r.o.Logger.Warn().Str("peer", string(node)).Int("mtu", from).Int("to", to).
			Msg("full packets do not arrive while small ones do")
	}
	r.o.Found(node, from, to)
}
