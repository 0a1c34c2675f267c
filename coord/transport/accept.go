package transport

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/loglimit"
	"github.com/skein-project/skein/internal/wait"
)

// typeProbe is what counters call a padded heartbeat.
const typeProbe wire.Type = "heartbeat_probe"

// skewConfirm is for how long messages of a member must be off before its clock
// is to blame.
const skewConfirm = 2 * time.Second

// Delivery is an authenticated message on its way to its reader.
type Delivery struct {
	Msg     wire.Message
	Payload wire.Payload
	At      time.Duration // when it was read
	Skew    time.Duration // of the sender's clock
	Onion   bool          // it came over an onion service
}

// acceptor reads datagrams and lets through what is a member's, new and
// meant for this host. The order of its checks is part of the protocol: what
// is cheap comes first, the signature near the end, and only what it covers
// moves the replay window.
type acceptor struct {
	self     cluster.NodeID
	conn     net.PacketConn
	dir      *atomic.Pointer[Directory]
	times    *timestamps
	out      chan<- Delivery
	m        *metrics
	refusals *refusals
	skews    *skews
	twins    *twins
	log      zerolog.Logger
	gate     *loglimit.Gate

	mu     sync.Mutex                     // the socket and each stream of an onion service have a reader
	seen   *Directory                     // guarded by mu: that peers and limits were last tidied by
	peers  map[cluster.NodeID]*acceptPeer // guarded by mu
	limits limiter                        // guarded by mu
}

// acceptPeer is what the acceptor remembers of one sender.
type acceptPeer struct {
	key    ed25519.PublicKey // that the window is about
	window wire.Window
	since  int64                 // timestamp of the first message of the window's boot
	heads  [recentSigs]recentSig // of that boot, by sequence number
	off    time.Duration         // when a message's time was first off since one was good; 0 if none was
	skewed bool                  // warned that its clock is off; until a message is good
}

// run reads until the socket is closed.
func (a *acceptor) run(ctx context.Context) error {
	// One byte more than a message may have shows that it is too long.
	buf := make([]byte, wire.MaxProbe+1)
	for {
		n, from, err := a.conn.ReadFrom(buf)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("read datagrams: %w", err)
			}
			// An unreachable peer or the like; the socket lives on.
			a.m.unsent.WithLabelValues("read").Inc()
			if wait.For(ctx, 10*time.Millisecond) != nil {
				return nil
			}
			continue
		}
		source, ok := packetAddr(from)
		if !ok {
			a.refuse(wire.Message{}, from, wire.Refuse(wire.ReasonSource, "source address %s", from))
			continue
		}
		a.one(buf[:n], source, from, false)
	}
}

// one takes a datagram through all checks.
func (a *acceptor) one(data []byte, source netip.Addr, from net.Addr, onion bool) {
	m, p, err := a.judge(data, source, onion)
	if err != nil {
		a.refuse(m, from, err)
		return
	}
	select {
	case a.out <- Delivery{Msg: m, Payload: p, At: a.times.now(), Skew: skewOf(m.Time, a.times.wall()), Onion: onion}:
		kind := m.Type
		if m.Size > wire.MaxDatagram {
			kind = typeProbe
		}
		a.m.accepted.WithLabelValues(string(kind)).Inc()
	default:
		a.refuse(m, from, wire.Refuse(ReasonQueue, "%s of %s", m.Type, m.Node))
	}
}

// check refuses a datagram of the mesh or returns what it says.
func (a *acceptor) check(data []byte, source netip.Addr) (wire.Message, wire.Payload, error) {
	return a.judge(data, source, false)
}

// judge is check, also for what came over an onion service.
func (a *acceptor) judge(data []byte, source netip.Addr, onion bool) (wire.Message, wire.Payload, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m, err := wire.Parse(data) // size, then shape
	dir := a.dir.Load()
	if dir != a.seen {
		a.tidy(dir)
	}
	if err != nil {
		return m, nil, err
	}
	sender, known := dir.member[m.Node]
	if !known || m.Node == a.self {
		return a.checkStranger(m, source, known)
	}
	if !dir.Owns(m.Node, source) {
		return m, nil, wire.Refuse(wire.ReasonSource, "%s of %s from %s", m.Type, m.Node, source)
	}
	peer := a.peer(sender)
	if !a.limits.take(peer.rateKey(m), a.times.now()) {
		return m, nil, wire.Refuse(wire.ReasonRate, "%s", m.Node)
	}
	if err := a.times.check(m, onion); err != nil {
		a.noteSkew(peer, m, err)
		return m, nil, err
	}
	if err := peer.window.Check(m.Boot, m.Seq); err != nil {
		if peer.twice(m, a.self) {
			a.twins.note(m.Node, peer.window.Boot(), a.times.now())
			return m, nil, wire.Refuse(ReasonDuplicate, "boot %d of %s still speaks beside boot %d", m.Boot, m.Node, peer.window.Boot())
		}
		return m, nil, err
	}
	if err := m.For(a.self); err != nil {
		return m, nil, err
	}
	if err := wire.Verify(m, ed25519.PublicKey(sender.IDPub)); err != nil {
		return m, nil, err
	}
	peer.accepted(m)
	peer.off = 0
	if peer.skewed {
		peer.skewed = false
		a.log.Info().Str("peer", string(m.Node)).Msg("clock of peer is right again")
	}
	p, err := wire.Decode(m)
	return m, p, err
}

// noteSkew warns once about a member whose clock is off, if the message is really
// that member's and not the only one: what waited for a session with a host that
// was out of reach is old and arrives all at once.
func (a *acceptor) noteSkew(peer *acceptPeer, m wire.Message, err error) {
	if errors.Is(err, wire.ErrBeforeStart) || peer.window.Check(m.Boot, m.Seq) != nil {
		return // a good clock, or an old recording
	}
	switch now := a.times.now(); {
	case peer.off == 0:
		peer.off = now
		return
	case now-peer.off < skewConfirm:
		return
	}
	if !a.gate.Pass("skew/"+string(m.Node)) || wire.Verify(m, peer.key) != nil {
		return
	}
	off := skewOf(m.Time, a.times.wall())
	a.skews.set(m.Node, Skew{Offset: off, At: a.times.now()})
	if !peer.skewed {
		peer.skewed = true
		a.log.Warn().Str("peer", string(m.Node)).Float64("offset_seconds", off.Seconds()).
			Msg("clock of peer is off: its messages are refused")
	}
}

// tidy forgets hosts that are no longer members, and their replay windows only
// when there are many of them, since a host may come back.
func (a *acceptor) tidy(dir *Directory) {
	a.seen = dir
	a.limits.forget(dir)
	if len(a.peers) <= 2*member.MaxMembers {
		return
	}
	maps.DeleteFunc(a.peers, func(node cluster.NodeID, _ *acceptPeer) bool {
		_, ok := dir.member[node]
		return !ok
	})
}

// checkStranger lets a host introduce itself before its records are known
// here: by a peer_announce that brings them, sent from the address that its
// certificate names and signed by the key that it certifies. The table judges
// the records again, with its conflicts and revocations.
func (a *acceptor) checkStranger(m wire.Message, source netip.Addr, isSelf bool) (wire.Message, wire.Payload, error) {
	if isSelf || m.Type != wire.TypePeerAnnounce {
		return m, nil, wire.Refuse(wire.ReasonUnknownSender, "%s of %s from %s", m.Type, m.Node, source)
	}
	// What comes from a member's address uses up that member's share only.
	if !a.limits.take(rateKey{class: classStranger, node: a.dir.Load().byAddr[source]}, a.times.now()) {
		return m, nil, wire.Refuse(wire.ReasonRate, "hosts that are no members yet")
	}
	p, err := wire.Decode(m)
	if err != nil {
		return m, nil, err
	}
	announce, ok := p.(wire.PeerAnnounce)
	if !ok {
		return m, nil, wire.Refuse(wire.ReasonPayload, "peer_announce of %s", m.Node)
	}
	signed, err := member.ParseSigned(announce.Cert)
	if err != nil {
		return m, nil, wire.Refuse(wire.ReasonRecord, "%s: %v", m.Node, err)
	}
	cert, err := member.ParseCert(signed)
	if err != nil {
		return m, nil, wire.Refuse(wire.ReasonRecord, "%s: %v", m.Node, err)
	}
	if cert.Node != m.Node {
		return m, nil, wire.Refuse(wire.ReasonRecord, "%s announces the certificate of %s", m.Node, cert.Node)
	}
	if source != cert.IP4 && source != cert.IP6 {
		return m, nil, wire.Refuse(wire.ReasonSource, "%s of %s from %s", m.Type, m.Node, source)
	}
	if err := a.times.check(m, false); err != nil {
		return m, nil, err
	}
	if err := m.For(a.self); err != nil {
		return m, nil, err
	}
	if err := wire.Verify(m, cert.IDPub); err != nil {
		return m, nil, err
	}
	return m, p, nil
}

// peer returns what is remembered of a member, afresh if its key changed.
func (a *acceptor) peer(m cluster.Member) *acceptPeer {
	p := a.peers[m.Node]
	if p == nil || !p.key.Equal(ed25519.PublicKey(m.IDPub)) {
		p = &acceptPeer{key: ed25519.PublicKey(m.IDPub)}
		a.peers[m.Node] = p
	}
	return p
}

// rateKey is the bucket of a message that claims to be from p. What names another
// boot than the one heard has its own, small one: a local user of p's machine
// can send from its address, but does not know its boot, and so cannot use up
// what p itself may send.
func (p *acceptPeer) rateKey(m wire.Message) rateKey {
	if boot := p.window.Boot(); boot != 0 && m.Boot != boot {
		return rateKey{node: m.Node, class: classOtherBoot}
	}
	return rateKey{node: m.Node}
}

// refuse counts and, now and then, logs.
func (a *acceptor) refuse(m wire.Message, from net.Addr, err error) {
	reason := wire.ReasonOf(err)
	a.refusals.count(reason)
	key := "reject/" + string(reason)
	dir := a.dir.Load()
	if _, ok := dir.member[m.Node]; ok {
		key += "/" + string(m.Node) // never keyed by what a stranger wrote
	}
	// Clocks have their own warning; what was on its way when this host
	// started is nothing to warn of.
	level := zerolog.WarnLevel
	if reason == wire.ReasonClock {
		level = zerolog.DebugLevel
	} else if source, ok := packetAddr(from); ok && reason == wire.ReasonUnknownSender {
		level = dir.refusalLevel(source)
	}
	if !a.gate.Pass(key + "/" + level.String()) {
		return
	}
	a.log.WithLevel(level).Err(err).Stringer("addr", from).Msg("datagram refused")
}

// packetAddr is the IP address of a datagram's sender.
func packetAddr(a net.Addr) (netip.Addr, bool) {
	if u, ok := a.(*net.UDPAddr); ok {
		ip, ok := netip.AddrFromSlice(u.IP)
		return ip.Unmap(), ok
	}
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}, false
	}
	return ap.Addr().Unmap(), true
}
