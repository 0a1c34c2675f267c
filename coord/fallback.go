package coord

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/path"
	"github.com/skein-project/skein/coord/wire"
)

// ProtoOnion is the protocol of the stream between onion services that carries
// datagrams while the mesh does not, see package path.
const ProtoOnion = "skein-onion/1"

// What is longer over onion services than in the mesh.
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
	// Bulk are the protocols that do not go that way, being too big for it.
	Bulk []string
}

// ErrBulk says that the protocol is too big for the way that is left to a host. Retryable
// when the mesh carries again.
var ErrBulk = errors.New("too big for the onion service, and the mesh does not carry")

// fallback is the loop's side of the streams between onion services. Without
// Options.Fallback it does nothing, and every way is direct.
type fallback struct {
	core  *path.Core // nil: off
	links links
	// detoured is who is reached over onion services, for other goroutines.
	detoured atomic.Pointer[map[cluster.NodeID]bool]
	since    map[cluster.NodeID]time.Duration // the last change of way
}

func (f *fallback) onion(node cluster.NodeID) bool {
	m := f.detoured.Load()
	return m != nil && (*m)[node]
}

func newFallback(o *Options) *fallback {
	f := &fallback{links: newLinks(), since: map[cluster.NodeID]time.Duration{}}
	if o.Fallback != nil {
		f.core = path.New(o.Self, path.DefaultTiming(o.Timing.Heartbeat, o.Timing.Suspect))
	}
	return f
}

// pathStep feeds the choice of ways and carries out what it answers.
func (s *Service) pathStep(ev path.Event) {
	if s.fallback.core == nil {
		return
	}
	for _, a := range s.fallback.core.Step(ev, s.now()) {
		switch a := a.(type) {
		case path.Dial:
			s.dialOnion(a.Node)
		case path.Close:
			s.fallback.links.close(a.Node)
		case path.Say:
			s.fallback.links.say(a.Node, a.Deaf)
		case path.Changed:
			s.wayChanged(a)
		}
	}
}

// duePath lets the time of the ways pass.
func (s *Service) duePath(now time.Duration) {
	if s.fallback.core == nil {
		return
	}
	if at, ok := s.fallback.core.Deadline(); ok && now >= at {
		s.pathStep(path.Tick{})
	}
}

func (s *Service) wayChanged(a path.Changed) {
	now, dir := s.now(), s.dir.Load()
	s.fallback.since[a.Node] = now
	next := make(map[cluster.NodeID]bool)
	for node := range s.fallback.since {
		if _, ok := dir.byNode[node]; ok && s.fallback.core.Way(node) == path.Onion {
			next[node] = true
		}
	}
	s.fallback.detoured.Store(&next)
	s.dirty = true
	s.m.pathChanges.WithLabelValues(string(a.To)).Inc()
	s.m.onionPeers.Set(float64(len(next)))
	s.log.Info().Str("peer", string(a.Node)).Str("path", string(a.To)).Msg("messages take another way")
	p := s.peers[a.Node]
	if p == nil {
		return
	}
	if a.To == path.Onion {
		s.detector.SetSlack(a.Node, s.onionSlack(a.Node))
	}
	// Now, not with the next round: it may count the last one as lost.
	p.rtts = 0
	p.intro.pause, p.intro.again = 0, 0
	s.introduce(a.Node)
	s.beatTo(a.Node, now, false)
}

// onionSlack is how much longer node may be silent because of its way.
func (s *Service) onionSlack(node cluster.NodeID) time.Duration {
	if !s.fallback.onion(node) {
		return 0
	}
	return max((stretch-1)*s.o.Timing.Suspect, onionSlack)
}

// timeFor is a timeout for what goes to node.
func (s *Service) timeFor(node cluster.NodeID, usual time.Duration) time.Duration {
	if s.fallback.onion(node) {
		return stretch * usual
	}
	return usual
}

// addPaths makes the choice of ways follow the membership.
func (s *Service) addPaths() {
	if s.fallback.core == nil {
		return
	}
	for _, m := range s.members {
		if m.Node != s.o.Self {
			s.pathStep(path.Add{Node: m.Node, Onion: m.Onion != ""})
		}
	}
}

// dialOnion opens the stream to a member and serves it.
func (s *Service) dialOnion(node cluster.NodeID) {
	ctx := s.runCtx
	if ctx == nil {
		s.pathStep(path.Failed{Node: node, Jitter: s.o.Rand()})
		return
	}
	jitter := s.o.Rand()
	s.pulls.Go(func() {
		dctx, cancel := context.WithTimeout(ctx, onionConnect)
		conn, err := s.streams.dialOnion(dctx, node, ProtoOnion)
		cancel()
		if err != nil {
			s.m.onionDials.WithLabelValues("error").Inc()
			if ctx.Err() == nil && s.logGate.pass("onion/"+string(node)) {
				s.log.Debug().Err(err).Str("peer", string(node)).Msg("onion service not reached")
			}
			s.post(func() { s.pathStep(path.Failed{Node: node, Jitter: jitter}) })
			return
		}
		s.m.onionDials.WithLabelValues("ok").Inc()
		s.serveLink(ctx, node, conn, true)
	})
}

// serveOnion serves a stream that another host opened.
func (s *Service) serveOnion(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	s.serveLink(ctx, from, conn, false)
}

// serveLink carries datagrams both ways until the stream ends.
func (s *Service) serveLink(ctx context.Context, node cluster.NodeID, conn net.Conn, dialled bool) {
	defer conn.Close()
	if s.fallback.core == nil {
		return
	}
	l := newLink(node, conn, dialled)
	// Which of two streams stays goes by the node ids, so that both ends keep
	// the same one; of two from one end the later.
	if !s.fallback.links.put(l, s.o.Self < node) {
		if dialled {
			s.post(func() { s.otherLink(node, s.o.Rand()) })
		}
		return
	}
	s.m.onionStreams.Inc()
	defer s.m.onionStreams.Dec()
	s.post(func() {
		if s.fallback.links.has(l) {
			s.pathStep(path.Opened{Node: node})
		}
	})
	err := l.run(ctx, linkHooks{
		message: func(b []byte) { s.onionMessage(node, b) },
		word: func(deaf bool) {
			s.post(func() {
				if s.fallback.links.has(l) {
					s.pathStep(path.Word{Node: node, Deaf: deaf})
				}
			})
		},
		sent: func(kind wire.Type) { s.m.sent.WithLabelValues(string(kind)).Inc() },
	})
	if err != nil && ctx.Err() == nil && s.logGate.pass("link/"+string(node)) {
		s.log.Debug().Err(err).Str("peer", string(node)).Msg("stream to an onion service ended")
	}
	jitter := s.o.Rand()
	s.post(func() {
		if s.fallback.links.drop(l) {
			s.pathStep(path.Closed{Node: node, Jitter: jitter})
		}
	})
}

// otherLink ends a dial that brought a stream beside another one that stays.
func (s *Service) otherLink(node cluster.NodeID, jitter float64) {
	if s.fallback.links.get(node) != nil {
		s.pathStep(path.Opened{Node: node})
		return
	}
	s.pathStep(path.Failed{Node: node, Jitter: jitter})
}

// onionMessage takes a datagram that came over a stream of node, which proved
// to be that host: it counts as coming from its certified address.
func (s *Service) onionMessage(node cluster.NodeID, b []byte) {
	m, ok := s.dir.Load().byNode[node]
	if !ok {
		return // removed meanwhile; the stream is about to be closed
	}
	s.m.onionMessages.Inc()
	s.acceptor.one(b, meshAddr(m), onionAddr(node), true)
}

// onionAddr is where a message came from that came over an onion service.
type onionAddr cluster.NodeID

// Network implements net.Addr.
func (a onionAddr) Network() string { return "onion" }

func (a onionAddr) String() string { return "onion service of " + string(a) }

// beatDirect sends a heartbeat over the mesh to a host that is reached over
// onion services: if some arrive, that ends.
func (s *Service) beatDirect(node cluster.NodeID, now time.Duration) {
	m, ok := s.dir.Load().byNode[node]
	p := s.peers[node]
	if !ok || p == nil || !s.fallback.onion(node) || s.removed {
		return
	}
	data, err := s.seal(node, wire.TypeHeartbeat, s.ownBeat(p, now, false))
	if err != nil {
		s.m.unsent.WithLabelValues("seal").Inc()
		return
	}
	s.queue(datagram{to: s.udpAddr(m), kind: wire.TypeHeartbeat, data: data})
}

// queueOnion hands a message to the stream of a member; it reports whether
// there is one.
func (s *Service) queueOnion(m cluster.Member, kind wire.Type, data []byte) bool {
	if !s.fallback.onion(m.Node) {
		return false
	}
	switch s.fallback.links.send(m.Node, linkMessage{kind: kind, data: data}) {
	case linkNone:
		return false
	case linkFull:
		s.m.unsent.WithLabelValues("onion").Inc()
	case linkTaken:
	}
	return true
}

// pathOf says how node is reached, for the view.
func (s *Service) pathOf(node cluster.NodeID, health cluster.Health) (way path.Way, since time.Duration) {
	since = s.fallback.since[node]
	switch {
	case s.fallback.onion(node):
		return path.Onion, since
	case health == cluster.Alive:
		return path.Direct, since
	}
	return "", since
}

// onionTarget is the onion service of a member.
func onionTarget(m cluster.Member) (string, error) {
	if m.Onion == "" {
		return "", fmt.Errorf("%s has no onion service", m.Node)
	}
	if _, err := member.ParseOnion(m.Onion); err != nil {
		return "", err
	}
	return m.Onion, nil
}
