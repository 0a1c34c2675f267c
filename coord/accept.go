package coord

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
)

// Kinds of datagrams that only counters know.
const (
	typeLegacy wire.Type = "heartbeat_v1"    // unsigned, of a listed host
	typeProbe  wire.Type = "heartbeat_probe" // padded
)

// skewConfirm is for how long messages of a member must be off before its clock
// is to blame.
const skewConfirm = 2 * time.Second

// delivery is an authenticated message on its way to the loop. One without a
// payload is an unsigned heartbeat of a listed host.
type delivery struct {
	msg     wire.Message
	payload wire.Payload
	at      time.Duration // when it was read
	skew    time.Duration // of the sender's clock
	onion   bool          // it came over an onion service
}

// tuned are the options that may change while the reader runs.
type tuned struct {
	tolerance time.Duration
	legacy    map[cluster.NodeID]bool
}

// acceptor reads datagrams and lets through what is a member's, new and
// meant for this host. The order of its checks is part of the protocol: what
// is cheap comes first, the signature near the end, and only what it covers
// moves the replay window.
type acceptor struct {
	self    cluster.NodeID
	conn    net.PacketConn
	dir     *atomic.Pointer[directory]
	tuned   *atomic.Pointer[tuned]
	started time.Duration // local clock
	now     func() time.Duration
	wall    func() time.Time
	out     chan<- delivery
	m       *metrics
	rejects *rejects
	skews   *skews
	twins   *duplicates
	log     zerolog.Logger
	logGate *logGate

	mu     sync.Mutex                     // the socket and each stream of an onion service have a reader
	seen   *directory                     // guarded by mu: that peers and limits were last tidied by
	peers  map[cluster.NodeID]*acceptPeer // guarded by mu
	limits limiter                        // guarded by mu
}

// acceptPeer is what the acceptor remembers of one sender.
type acceptPeer struct {
	key    ed25519.PublicKey // that the window is about
	window wire.Window
	since  int64                 // timestamp of the first message of the window's boot
	heads  [recentSigs]recentSig // of that boot, by sequence number
	legacy int64                 // timestamp of the last unsigned heartbeat
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
			if pause(ctx, 10*time.Millisecond) != nil {
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
	case a.out <- delivery{msg: m, payload: p, at: a.now(), skew: skewOf(m.Time, a.wall()), onion: onion}:
		kind := m.Type
		switch {
		case p == nil:
			kind = typeLegacy
		case m.Size > wire.MaxDatagram:
			kind = typeProbe
		}
		a.m.accepted.WithLabelValues(string(kind)).Inc()
	default:
		a.refuse(m, from, wire.Refuse(reasonQueue, "%s of %s", m.Type, m.Node))
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
		if legacy := a.tuned.Load().legacy; len(legacy) > 0 && wire.ReasonOf(err) != wire.ReasonSize {
			return a.checkLegacy(dir, legacy, data, source, err)
		}
		return m, nil, err
	}
	sender, known := dir.byNode[m.Node]
	if !known || m.Node == a.self {
		return a.checkStranger(m, source, known)
	}
	if !dir.owns(m.Node, source) {
		return m, nil, wire.Refuse(wire.ReasonSource, "%s of %s from %s", m.Type, m.Node, source)
	}
	peer := a.peer(sender)
	if !a.limits.take(peer.rateKey(m), a.now()) {
		return m, nil, wire.Refuse(wire.ReasonRate, "%s", m.Node)
	}
	if err := a.fresh(m, onion); err != nil {
		a.noteSkew(peer, m, err)
		return m, nil, err
	}
	if err := peer.window.Check(m.Boot, m.Seq); err != nil {
		if peer.twice(m, a.self) {
			a.twins.note(m.Node, peer.window.Boot(), a.now())
			return m, nil, wire.Refuse(reasonDuplicate, "boot %d of %s still speaks beside boot %d", m.Boot, m.Node, peer.window.Boot())
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
		a.log.Info().Str("peer", string(m.Node)).Msg("clock of peer is good again")
	}
	p, err := wire.Decode(m)
	return m, p, err
}

// fresh checks a message's time. The own start is reckoned back from now, so
// that a wall clock that is set right does not shut out everyone.
func (a *acceptor) fresh(m wire.Message, onion bool) error {
	wall, tolerance := a.wall(), a.tuned.Load().tolerance
	if onion {
		tolerance *= stretch
	}
	return m.Fresh(wall, wall.Add(a.started-a.now()), tolerance)
}

// noteSkew warns once of a member whose clock is off, if it is really that
// member that says so, and more than once: what waited for a session, to a host
// that was out of reach, is old and comes all at a time.
func (a *acceptor) noteSkew(peer *acceptPeer, m wire.Message, err error) {
	if errors.Is(err, wire.ErrBeforeStart) || peer.window.Check(m.Boot, m.Seq) != nil {
		return // a good clock, or an old recording
	}
	switch now := a.now(); {
	case peer.off == 0:
		peer.off = now
		return
	case now-peer.off < skewConfirm:
		return
	}
	if !a.logGate.pass("skew/"+string(m.Node)) || wire.Verify(m, peer.key) != nil {
		return
	}
	off := skewOf(m.Time, a.wall())
	a.skews.set(m.Node, skew{offset: off, at: a.now()})
	if !peer.skewed {
		peer.skewed = true
		a.log.Warn().Str("peer", string(m.Node)).Float64("offset_seconds", off.Seconds()).
			Msg("clock of peer is off: its messages are refused")
	}
}

// checkLegacy takes an unsigned heartbeat of protocol version 1 for what it
// can prove at most: that something at a listed member's certified address
// lives. Everything else is refused as it was without the list.
func (a *acceptor) checkLegacy(
	dir *directory, legacy map[cluster.NodeID]bool, data []byte, source netip.Addr, refused error,
) (wire.Message, wire.Payload, error) {
	h, err := wire.ParseLegacy(data)
	if err != nil || !legacy[h.Node] || h.Node == a.self {
		return wire.Message{}, nil, refused
	}
	m := wire.Message{Header: h, Size: len(data)}
	sender, known := dir.byNode[h.Node]
	switch {
	case !known:
		return m, nil, wire.Refuse(wire.ReasonUnknownSender, "%s of %s from %s", typeLegacy, h.Node, source)
	case !dir.owns(h.Node, source):
		return m, nil, wire.Refuse(wire.ReasonSource, "%s of %s from %s", typeLegacy, h.Node, source)
	case !a.limits.take(rateKey{node: h.Node}, a.now()):
		return m, nil, wire.Refuse(wire.ReasonRate, "%s", h.Node)
	}
	if err := a.fresh(m, false); err != nil {
		return m, nil, err
	}
	peer := a.peer(sender)
	if h.Time < peer.legacy {
		return m, nil, wire.Refuse(wire.ReasonReplay, "%s of %s is older than the last", typeLegacy, h.Node)
	}
	peer.legacy = h.Time
	return m, nil, nil
}

// tidy forgets hosts that are no members any more; their replay windows only
// when there are many, since one may come back.
func (a *acceptor) tidy(dir *directory) {
	a.seen = dir
	a.limits.forget(dir)
	if len(a.peers) <= 2*member.MaxMembers {
		return
	}
	maps.DeleteFunc(a.peers, func(node cluster.NodeID, _ *acceptPeer) bool {
		_, ok := dir.byNode[node]
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
	if !a.limits.take(rateKey{class: classStranger, node: a.dir.Load().byAddr[source]}, a.now()) {
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
	if err := a.fresh(m, false); err != nil {
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

// rateKey is the bucket of a message that says to be of p. What names another
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
	a.m.rejected.WithLabelValues(string(reason)).Inc()
	a.rejects.add(reason)
	key := "reject/" + string(reason)
	dir := a.dir.Load()
	if _, ok := dir.byNode[m.Node]; ok {
		key += "/" + string(m.Node) // never keyed by what a stranger wrote
	}
	if !a.logGate.pass(key) {
		return
	}
	// Clocks have their own warning; what was on its way when this host
	// started is nothing to warn of.
	level := zerolog.WarnLevel
	if reason == wire.ReasonClock {
		level = zerolog.DebugLevel
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
