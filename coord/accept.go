package coord

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
)

// Rates of announcements of hosts that are not members yet, all together.
const (
	strangerRate  = 20
	strangerBurst = 64
)

// delivery is an authenticated message on its way to the loop.
type delivery struct {
	msg     wire.Message
	payload wire.Payload
	at      time.Duration // when it was read
}

// acceptor reads datagrams and lets through what is a member's, new and
// meant for this host. The order of its checks is part of the protocol: what
// is cheap comes first, the signature near the end, and only what it covers
// moves the replay window. It belongs to the goroutine that reads.
type acceptor struct {
	self      cluster.NodeID
	conn      net.PacketConn
	dir       *atomic.Pointer[directory]
	tolerance time.Duration
	started   time.Time
	now       func() time.Duration
	wall      func() time.Time
	out       chan<- delivery
	m         *metrics
	rejects   *rejects
	log       zerolog.Logger
	logGate   *logGate

	peers     map[cluster.NodeID]*acceptPeer
	strangers bucket
}

// acceptPeer is what the acceptor remembers of one sender.
type acceptPeer struct {
	key    ed25519.PublicKey // that the window is about
	rate   bucket
	window wire.Window
}

// run reads until the socket is closed.
func (a *acceptor) run(ctx context.Context) error {
	// One byte more than a message may have shows that it is too long.
	buf := make([]byte, wire.MaxDatagram+1)
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
		a.one(buf[:n], source, from)
	}
}

// one takes a datagram through all checks.
func (a *acceptor) one(data []byte, source netip.Addr, from net.Addr) {
	m, p, err := a.check(data, source)
	if err != nil {
		a.refuse(m, from, err)
		return
	}
	select {
	case a.out <- delivery{msg: m, payload: p, at: a.now()}:
		a.m.accepted.WithLabelValues(string(m.Type)).Inc()
	default:
		a.refuse(m, from, wire.Refuse(reasonQueue, "%s of %s", m.Type, m.Node))
	}
}

// check refuses a datagram or returns what it says.
func (a *acceptor) check(data []byte, source netip.Addr) (wire.Message, wire.Payload, error) {
	m, err := wire.Parse(data) // size, then shape
	if err != nil {
		return m, nil, err
	}
	dir := a.dir.Load()
	sender, known := dir.byNode[m.Node]
	if !known || m.Node == a.self {
		return a.checkStranger(m, source, known)
	}
	if !dir.owns(m.Node, source) {
		return m, nil, wire.Refuse(wire.ReasonSource, "%s of %s from %s", m.Type, m.Node, source)
	}
	peer := a.peer(sender)
	now := a.now()
	if !peer.rate.take(now, peerRate, peerBurst) {
		return m, nil, wire.Refuse(wire.ReasonRate, "%s", m.Node)
	}
	if err := m.Fresh(a.wall(), a.started, a.tolerance); err != nil {
		return m, nil, err
	}
	if err := peer.window.Check(m.Boot, m.Seq); err != nil {
		return m, nil, err
	}
	if err := m.For(a.self); err != nil {
		return m, nil, err
	}
	if err := wire.Verify(m, ed25519.PublicKey(sender.IDPub)); err != nil {
		return m, nil, err
	}
	peer.window.Advance(m.Boot, m.Seq)
	p, err := wire.Decode(m)
	return m, p, err
}

// checkStranger lets a host introduce itself before its records are known
// here: by a peer_announce that brings them, sent from the address that its
// certificate names and signed by the key that it certifies. The table judges
// the records again, with its conflicts and revocations.
func (a *acceptor) checkStranger(m wire.Message, source netip.Addr, isSelf bool) (wire.Message, wire.Payload, error) {
	if isSelf || m.Type != wire.TypePeerAnnounce {
		return m, nil, wire.Refuse(wire.ReasonUnknownSender, "%s of %s from %s", m.Type, m.Node, source)
	}
	if !a.strangers.take(a.now(), strangerRate, strangerBurst) {
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
	if err := m.Fresh(a.wall(), a.started, a.tolerance); err != nil {
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
	e := a.log.Warn().Err(err).Stringer("addr", from)
	if reason == wire.ReasonClock && m.Time > 0 {
		e = e.Str("peer", string(m.Node)).Float64("offset_seconds", time.Unix(m.Time, 0).Sub(a.wall()).Seconds())
	}
	e.Msg("datagram refused")
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
