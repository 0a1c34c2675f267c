package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/path"
	"github.com/skein-project/skein/coord/wire"
)

// onionLimits bound streams of messages between onion services. One that
// replaces another opens before that has ended.
var onionLimits = Limits{Peer: 3, All: 2 * path.MaxStreams, Rate: 0.5, Burst: 10}

// Transport is this host's sockets: datagrams and streams to and from members.
// See the package comment for its goroutines.
type Transport struct {
	self     cluster.NodeID
	port     uint16
	conn     net.PacketConn
	now      func() time.Duration
	m        *metrics
	dir      atomic.Pointer[Directory]
	times    timestamps
	refusals *refusals
	in       *acceptor
	inbox    chan Delivery
	out      *sender
	sealer   *sealer
	streams  *streams
	paths    *Paths
}

// New checks o. It starts nothing.
func New(o Options) (*Transport, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	m, err := newMetrics(&o)
	if err != nil {
		return nil, err
	}
	cert, err := identityCertificate(o.Key)
	if err != nil {
		return nil, err
	}
	t := &Transport{
		self: o.Self, port: o.Port, conn: o.PacketConn, now: o.Now, m: m, inbox: make(chan Delivery, inboxSize),
		refusals: &refusals{total: m.rejected, log: o.Logger, gate: o.Gate, n: make(map[wire.Reason]uint64)},
		out: &sender{
			conn: o.PacketConn, m: m, log: o.Logger, gate: o.Gate,
			sendq: make(chan datagram, sendSize), urgent: make(chan datagram, urgentSize),
		},
		sealer: &sealer{self: o.Self, key: o.Key, boot: o.Boot, wall: o.Wall, m: m},
	}
	t.dir.Store(NewDirectory(nil))
	t.times.now, t.times.wall = o.Now, o.Wall
	t.times.tolerance.Store(int64(o.Tolerance))
	t.in = &acceptor{
		self: o.Self, conn: o.PacketConn, dir: &t.dir, times: &t.times, out: t.inbox, m: m, refusals: t.refusals,
		skews: &skews{m: make(map[cluster.NodeID]Skew)}, twins: &twins{m: make(map[cluster.NodeID]twin)},
		log: o.Logger, gate: o.Gate, peers: make(map[cluster.NodeID]*acceptPeer), limits: make(limiter),
	}
	t.paths = &Paths{
		since: make(map[cluster.NodeID]time.Duration), now: o.Now, suspect: o.Suspect, dir: &t.dir,
		changed: o.OnPath, m: m, log: o.Logger,
	}
	t.streams = &streams{
		self: o.Self, port: o.Port, listener: o.Listener, dialTCP: o.DialTCP, fallback: o.Fallback, detoured: t.paths.Onion,
		cert: cert, dir: &t.dir, m: m, log: o.Logger, gate: o.Gate, reg: newRegistry(&t.dir, m),
	}
	t.paths.links = &links{
		self: o.Self, rand: o.Rand, message: t.overOnion, post: o.Post, step: t.paths.step, m: m, log: o.Logger, gate: o.Gate,
		dial: func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
			return t.streams.dialOnion(ctx, to, ProtoOnion)
		},
		open: make(map[cluster.NodeID]*link),
	}
	if o.Fallback != nil {
		t.paths.core = path.New(o.Self, path.DefaultTiming(o.Heartbeat, o.Suspect))
		t.HandleLimited(ProtoOnion, onionLimits, t.paths.links.accept)
	}
	return t, nil
}

// Run receives, serves streams and sends. Receiving and serving end with ctx;
// Run returns after CloseSend, when what was queued is sent. If a socket fails
// meanwhile, failed is called with the reason, from another goroutine.
func (t *Transport) Run(ctx context.Context, failed func(error)) {
	t.times.started = t.now()
	t.paths.links.start(ctx)
	var readers sync.WaitGroup
	readers.Go(func() {
		if err := t.in.run(ctx); err != nil {
			failed(err)
		}
	})
	readers.Go(func() {
		if err := t.streams.run(ctx); err != nil {
			failed(err)
		}
	})
	t.out.run()
	_ = t.conn.Close()
	readers.Wait()
	t.paths.links.wg.Wait()
}

// CloseSend says that nothing more will be sent. It is for the owner, after its
// last message.
func (t *Transport) CloseSend() { t.out.close() }

// Inbox is where accepted messages come. It holds 256; what comes while it is
// full is lost and counted. It is never closed.
func (t *Transport) Inbox() <-chan Delivery { return t.inbox }

// SetMembers publishes the membership: messages and streams of others are
// refused from now on, and their open streams closed. It is for the owner.
func (t *Transport) SetMembers(members []cluster.Member) *Directory {
	dir := NewDirectory(members)
	dir.after(t.dir.Load())
	t.dir.Store(dir)
	t.streams.reg.prune(dir)
	return dir
}

// Directory is the membership of the last SetMembers.
func (t *Transport) Directory() *Directory { return t.dir.Load() }

// Paths is how members are reached.
func (t *Transport) Paths() *Paths { return t.paths }

// SetTolerance changes how far the timestamp of a message may be off.
func (t *Transport) SetTolerance(d time.Duration) { t.times.tolerance.Store(int64(d)) }

// Tolerance is how far the timestamp of a message may be off.
func (t *Transport) Tolerance() time.Duration { return time.Duration(t.times.tolerance.Load()) }

// Reject counts and logs that a member's message was refused by its reader.
func (t *Transport) Reject(node cluster.NodeID, err error) { t.refusals.reject(node, err) }

// CountRefused counts a refusal that is logged elsewhere or not at all.
func (t *Transport) CountRefused(reason wire.Reason) { t.refusals.count(reason) }

// Refused returns how many messages were refused, by reason.
func (t *Transport) Refused() map[string]uint64 { return t.refusals.snapshot() }

// Skew is how far the clock of node was off when messages were last refused for
// that.
func (t *Transport) Skew(node cluster.NodeID) (Skew, bool) { return t.in.skews.get(node) }

// Twin returns the boot of the process of node that counts if two are heard,
// else 0.
func (t *Transport) Twin(node cluster.NodeID, now time.Duration) uint64 {
	return t.in.twins.boot(node, now)
}

// Forget drops what is known of a host that is no longer a member. It is for the
// owner.
func (t *Transport) Forget(node cluster.NodeID) {
	t.paths.Remove(node)
	t.in.skews.forget(node)
	t.in.twins.forget(node)
}

// Send seals a message to a member and queues it, on the path to it. It is for
// the owner.
func (t *Transport) Send(to cluster.NodeID, kind wire.Type, payload any) error {
	m, ok := t.dir.Load().member[to]
	if !ok {
		return ErrNotMember
	}
	data, err := t.sealer.seal(to, kind, payload)
	if err != nil {
		return err
	}
	if !t.paths.send(to, kind, data) {
		t.out.queue(datagram{to: t.addr(m), kind: kind, data: data})
	}
	return nil
}

// SendMesh seals a message and queues it over the mesh, whatever the path to m
// is and whether it is still a member. It is for the owner.
func (t *Transport) SendMesh(m cluster.Member, kind wire.Type, payload any) error {
	data, err := t.sealer.seal(m.Node, kind, payload)
	if err != nil {
		return err
	}
	t.out.queue(datagram{to: t.addr(m), kind: kind, data: data})
	return nil
}

// SendPadded is SendMesh of a heartbeat that is padded to size bytes. It is for
// the owner.
func (t *Transport) SendPadded(m cluster.Member, payload wire.Heartbeat, size int) error {
	data, err := t.sealer.seal(m.Node, wire.TypeHeartbeat, payload)
	if err != nil {
		return err
	}
	t.out.queue(datagram{to: t.addr(m), kind: typeProbe, data: wire.Pad(data, size)})
	return nil
}

func (t *Transport) addr(m cluster.Member) net.Addr {
	return net.UDPAddrFromAddrPort(netip.AddrPortFrom(m.MeshAddr(), t.port))
}

// Dial opens a stream of proto to a member, which may be this host. The caller
// closes it; it fails when the member is removed or Run ends.
func (t *Transport) Dial(ctx context.Context, to cluster.NodeID, proto string) (net.Conn, error) {
	return t.streams.dial(ctx, to, proto)
}

// Handle registers who serves streams of proto.
func (t *Transport) Handle(proto string, h Handler) { t.streams.reg.handle(proto, h) }

// HandleLimited is Handle for a protocol that may cost only so much: streams
// beyond l are closed unanswered.
func (t *Transport) HandleLimited(proto string, l Limits, h Handler) {
	busy := t.m.streamErrors.WithLabelValues("busy").Inc
	t.Handle(proto, newGuard(l, t.now, busy, h).serve)
}

// Ask opens a stream of proto to a member, sends it one request and reads the
// answer, of at most limit bytes, both as length-prefixed JSON. It takes at
// most d, or as much longer as the path to that host needs.
func (t *Transport) Ask(
	ctx context.Context, to cluster.NodeID, proto string, d time.Duration, request any, limit int, answer any,
) error {
	d = t.paths.TimeFor(to, d)
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	conn, err := t.Dial(ctx, to, proto)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := errors.Join(conn.SetDeadline(time.Now().Add(d)), WriteFrame(conn, request)); err != nil {
		return fmt.Errorf("ask %s: %w", to, err)
	}
	if err := ReadFrame(conn, limit, answer); err != nil {
		return fmt.Errorf("ask %s: %w", to, err)
	}
	return nil
}

// overOnion takes a datagram that came over a stream of node, which proved to be
// that host: it counts as coming from its certified address.
func (t *Transport) overOnion(node cluster.NodeID, b []byte) {
	m, ok := t.dir.Load().member[node]
	if !ok {
		return // removed meanwhile; the stream is about to be closed
	}
	t.m.onionMessages.Inc()
	t.in.one(b, m.MeshAddr(), onionAddr(node), true)
}
