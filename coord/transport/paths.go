package transport

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/path"
	"github.com/skein-project/skein/coord/wire"
)

// ProtoOnion is the protocol of the stream between onion services that carries
// datagrams while the mesh does not, see package path.
const ProtoOnion = "skein-onion/1"

// What takes longer over onion services than in the mesh.
const (
	// stretch multiplies timeouts and the tolerance of timestamps.
	stretch = 3
	// onionSlack is how much longer, at least, a host may be silent: as long as
	// a broken stream takes to be replaced.
	onionSlack = 12 * time.Second
	// onionConnect bounds a dial, with everything that tor does for it.
	onionConnect = 60 * time.Second
)

// Fallback is how hosts reach each other when the mesh does not carry: through
// the onion service of each. Such a connection proves nothing by itself; TLS
// between the identity keys does, as on every stream.
type Fallback struct {
	// Listener accepts what came in through this host's own onion service; Run
	// closes it. Optional: a host without one can still dial the others.
	Listener net.Listener
	// Dial connects to the onion service of a member, at this package's Port.
	// Connections to different members share no circuit.
	Dial func(ctx context.Context, to cluster.NodeID, onion string) (net.Conn, error)
	// Bulk are the protocols that do not take this way: they are too big for it.
	Bulk []string
}

// Paths chooses how each member is reached, over the mesh or between onion
// services, and looks after the streams of the latter. Its methods are for the
// owner's goroutine, but for Onion and TimeFor. Without Options.Fallback
// every path is direct.
type Paths struct {
	core    *path.Core // nil: no fallback
	links   *links
	since   map[cluster.NodeID]time.Duration // the last change of path
	now     func() time.Duration
	suspect time.Duration // silence after which a member is suspected
	dir     *atomic.Pointer[Directory]
	changed func(path.Changed)
	m       *metrics
	log     zerolog.Logger
	// detoured are the members that are reached over onion services.
	detoured atomic.Pointer[map[cluster.NodeID]bool]
}

// Onion reports whether node is reached over onion services.
func (p *Paths) Onion(node cluster.NodeID) bool {
	m := p.detoured.Load()
	return m != nil && (*m)[node]
}

// TimeFor is the timeout for what goes to node and usually takes usual.
func (p *Paths) TimeFor(node cluster.NodeID, usual time.Duration) time.Duration {
	if p.Onion(node) {
		return stretch * usual
	}
	return usual
}

// Slack is how much longer node may be silent because of its path.
func (p *Paths) Slack(node cluster.NodeID) time.Duration {
	if !p.Onion(node) {
		return 0
	}
	return max((stretch-1)*p.suspect, onionSlack)
}

// Set makes the choice of paths follow the membership.
func (p *Paths) Set(members []cluster.Member, self cluster.NodeID) {
	for _, m := range members {
		if m.Node != self {
			p.step(path.Add{Node: m.Node, Onion: m.Onion != ""})
		}
	}
}

// Remove forgets a host that is no longer a member.
func (p *Paths) Remove(node cluster.NodeID) {
	p.step(path.Remove{Node: node})
	delete(p.since, node)
}

// Heard notes that a message of node came over the mesh.
func (p *Paths) Heard(node cluster.NodeID) { p.step(path.Heard{Node: node}) }

// Lost notes that node is suspected or dead.
func (p *Paths) Lost(node cluster.NodeID) { p.step(path.Lost{Node: node}) }

// Due lets time pass.
func (p *Paths) Due(now time.Duration) {
	if at, ok := p.Deadline(); ok && now >= at {
		p.step(path.Tick{})
	}
}

// Deadline is when Due has something to do.
func (p *Paths) Deadline() (time.Duration, bool) {
	if p.core == nil {
		return 0, false
	}
	return p.core.Deadline()
}

// Of says how node is reached and since when; the path of a host that is not
// alive and has no stream is empty.
func (p *Paths) Of(node cluster.NodeID, health cluster.Health) (way path.Way, since time.Duration) {
	since = p.since[node]
	switch {
	case p.Onion(node):
		return path.Onion, since
	case health == cluster.Alive:
		return path.Direct, since
	}
	return "", since
}

// step feeds the choice of paths and carries out its answers.
func (p *Paths) step(ev path.Event) {
	if p.core == nil {
		return
	}
	for _, a := range p.core.Step(ev, p.now()) {
		switch a := a.(type) {
		case path.Dial:
			if !p.links.begin(a.Node) {
				p.step(path.Failed{Node: a.Node, Jitter: p.links.rand()})
			}
		case path.Close:
			p.links.close(a.Node)
		case path.Say:
			p.links.say(a.Node, a.Deaf)
		case path.Changed:
			p.follow(a)
		}
	}
}

// follow carries out a change of path.
func (p *Paths) follow(a path.Changed) {
	dir := p.dir.Load()
	p.since[a.Node] = p.now()
	next := make(map[cluster.NodeID]bool)
	for node := range p.since {
		if _, ok := dir.member[node]; ok && p.core.Way(node) == path.Onion {
			next[node] = true
		}
	}
	p.detoured.Store(&next)
	p.m.pathChanges.WithLabelValues(string(a.To)).Inc()
	p.m.onionPeers.Set(float64(len(next)))
	p.log.Info().Str("peer", string(a.Node)).Str("path", string(a.To)).Msg("path to peer changed")
	p.changed(a)
}

// send hands a message to the stream of a member; it reports whether there is
// one.
func (p *Paths) send(node cluster.NodeID, kind wire.Type, data []byte) bool {
	if !p.Onion(node) {
		return false
	}
	switch p.links.send(node, linkMessage{kind: kind, data: data}) {
	case linkNone:
		return false
	case linkFull:
		p.m.unsent.WithLabelValues("onion").Inc()
	case linkTaken:
	}
	return true
}

// onionAddr is where a message came from that came over an onion service.
type onionAddr cluster.NodeID

// Network implements net.Addr.
func (a onionAddr) Network() string { return "onion" }

func (a onionAddr) String() string { return "onion service of " + string(a) }

// onionService is the onion service of a member.
func onionService(m cluster.Member) (string, error) {
	if m.Onion == "" {
		return "", fmt.Errorf("%s has no onion service", m.Node)
	}
	if _, err := member.ParseOnion(m.Onion); err != nil {
		return "", err
	}
	return m.Onion, nil
}
