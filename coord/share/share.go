package share

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
)

// Proto is the stream protocol by which a host fetches another's share of
// the onion addresses when it does not fit a datagram: the asker sends an empty
// object, the other answers the payload of intro_points, both framed like a
// pull, and closes.
const Proto = "skein-intro/1"

const (
	maxPulls = 4                // at once, of all peers
	timeout  = 10 * time.Second // of a pull
	// firstPause is after the first pull that failed; it doubles.
	firstPause = time.Second
	maxPause   = time.Minute
	// maxRetry is that of a host that is alive and was not reached: it may
	// just have changed its onion service.
	maxRetry = 10 * time.Second
)

// Limits bound what a peer that asks without end gets.
var Limits = transport.Limits{Peer: 2, All: 32, Rate: 2, Burst: 10}

// Share is what a host says of its part in the onion addresses, in pieces that
// are opaque here.
type Share struct {
	Known     bool        // it is what the host said last
	Digest    wire.Digest // of the pieces, zero if there are none
	Pieces    [][]byte
	FetchedAt time.Time // by that host's clock
}

// state is what the loop knows of one host's share.
type state struct {
	pieces []wire.SharePiece // never changed, only replaced
	digest wire.Digest       // of pieces
	at     uint64            // fetched_at

	// boot and seq are of the newest message that mentioned the share; latest is
	// the digest that it named.
	boot, seq uint64
	latest    wire.Digest
	publishes bool // its host, by its last heartbeat
	running   bool // a pull
	again     time.Duration
	pause     time.Duration
}

// newer notes a message that mentions the share, if it is the newest.
func (st *state) newer(m wire.Message, digest wire.Digest) bool {
	if m.Boot < st.boot || m.Boot == st.boot && m.Seq < st.seq {
		return false
	}
	st.boot, st.seq, st.latest = m.Boot, m.Seq, digest
	return true
}

// peer is what another host says.
type peer struct {
	share    state
	backends peerBackends
}

// Shares knows this host's share and backends and those of the others.
type Shares struct {
	o        Options
	pulls    *prometheus.CounterVec
	own      state
	set      bool // the daemon publishes one
	backends backendReport
	peers    map[cluster.NodeID]*peer
}

// New registers the protocol. It starts nothing.
func New(o Options) (*Shares, error) {
	s := &Shares{o: o, peers: make(map[cluster.NodeID]*peer), pulls: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "skein_coord_intro_pulls_total", Help: "Pulls of introduction points, by outcome.",
	}, []string{"outcome"})}
	if o.Registerer != nil {
		if err := o.Registerer.Register(s.pulls); err != nil {
			return nil, fmt.Errorf("register metrics of shares: %w", err)
		}
	}
	o.Net.HandleLimited(Proto, Limits, s.serve)
	return s, nil
}

// Add notes a member.
func (s *Shares) Add(node cluster.NodeID) {
	if s.peers[node] == nil {
		s.peers[node] = &peer{}
	}
}

// Forget drops what is known of a host that is no longer a member.
func (s *Shares) Forget(node cluster.NodeID) { delete(s.peers, node) }

// Retry lets the next heartbeat of a host that is reached another way start a
// pull at once.
func (s *Shares) Retry(node cluster.NodeID) {
	if p := s.peers[node]; p != nil {
		p.share.pause, p.share.again = 0, 0
	}
}

// Digest is that of this host's share.
func (s *Shares) Digest() wire.Digest { return s.own.digest }

// Pieces is how many pieces this host's share has; published is false if it has
// none since none was ever published.
func (s *Shares) Pieces() (n int, published bool) { return len(s.own.pieces), s.set }

// Own is what this host says.
func (s *Shares) Own() (Share, []wire.Backend) { return s.own.view(), s.backends.msg.Backends }

// Of is what another host says.
func (s *Shares) Of(node cluster.NodeID) (Share, []wire.Backend) {
	p := s.peers[node]
	if p == nil {
		return Share{}, nil
	}
	return p.share.view(), p.backends.list
}

// Publish replaces this host's share of the onion addresses and sends it
// to the others: at once where the pieces fit a datagram or the others pull
// them, and by the digest in every heartbeat to those that it did not reach. It
// may be called from any goroutine, before Run too. The error says which limit
// the pieces exceed.
func (s *Shares) Publish(pieces [][]byte, fetchedAt time.Time) error {
	list := make([]wire.SharePiece, len(pieces))
	for i, p := range pieces {
		list[i].Data = slices.Clone(p)
	}
	if err := wire.CheckShare(list); err != nil {
		return fmt.Errorf("publish share: %w", err)
	}
	own := state{pieces: list, digest: wire.ShareDigest(list), at: uint64(max(0, fetchedAt.Unix()))}
	s.o.Post(func() {
		if own.digest == s.own.digest && own.at == s.own.at {
			return
		}
		s.own, s.set = own, true
		s.o.Changed()
		s.sendOwn()
	})
	return nil
}

func (s *Shares) send(to cluster.NodeID, kind wire.Type, p wire.Payload) {
	if err := s.o.Net.Send(to, kind, p); err != nil && s.o.Gate.Pass(string(kind)+"/"+string(to)) {
		s.o.Logger.Warn().Err(err).Str("peer", string(to)).Str("type", string(kind)).Msg("message not sent")
	}
}

// message is what this host says of its share: the pieces if they fit a
// datagram, their digest if not.
func (s *Shares) message() wire.Share {
	p := wire.Share{Pieces: s.own.pieces, FetchedAt: min(s.own.at, uint64(max(0, s.o.Wall().Unix())))}
	if p.Pieces == nil {
		p.Pieces = []wire.SharePiece{}
	}
	size := 0
	for _, x := range p.Pieces {
		size += len(x.Data)*4/3 + 16
	}
	if size > maxInline {
		p.Count, p.Digest, p.Pieces = uint32(len(p.Pieces)), s.own.digest, []wire.SharePiece{}
	}
	return p
}

// maxInline is how many bytes the pieces may take in a datagram: what the
// longest names leave of it.
const maxInline = 700

// SendTo sends this host's share to another.
func (s *Shares) SendTo(to cluster.NodeID) { s.send(to, wire.TypeShare, s.message()) }

func (s *Shares) sendOwn() {
	for _, to := range s.o.Audience() {
		s.SendTo(to)
	}
}

// OnShare takes a host's own share, or the digest of it.
func (s *Shares) OnShare(d transport.Delivery, p wire.Share) {
	peer := s.peers[d.Msg.Node]
	if peer == nil {
		return // removed meanwhile
	}
	digest := p.Digest
	if p.Whole() {
		digest = wire.ShareDigest(p.Pieces)
	}
	if !peer.share.newer(d.Msg, digest) {
		return // overtaken by a later one
	}
	switch {
	case p.Whole():
		peer.share.pieces, peer.share.digest, peer.share.at = p.Pieces, digest, p.FetchedAt
	case digest == peer.share.digest:
		peer.share.at = p.FetchedAt // the same share, confirmed
	default:
		s.want(d.Msg.Node, peer)
	}
}

// OnBeat compares what a heartbeat says of its sender's share with what this
// host has, and sends one that begins to publish this host's own: in a large
// cluster it heard nothing of it before.
func (s *Shares) OnBeat(m wire.Message, hb *wire.Heartbeat) {
	p := s.peers[m.Node]
	if p == nil {
		return // removed meanwhile
	}
	publishes := hb.Role == cluster.RolePublisher
	if publishes && !p.share.publishes && s.o.Large() && len(s.own.pieces) > 0 {
		s.SendTo(m.Node)
	}
	p.share.publishes = publishes
	if !p.share.newer(m, hb.Share) || hb.Share == p.share.digest {
		return
	}
	if hb.Share == (wire.Digest{}) {
		p.share.pieces, p.share.digest, p.share.at = nil, hb.Share, 0
		s.o.Changed()
		return
	}
	s.want(m.Node, p)
}

// want starts a pull of a host's share, if this host is one that keeps
// shares: in a large cluster only those that publish or hold do.
func (s *Shares) want(node cluster.NodeID, p *peer) {
	if s.o.Large() && !s.o.Keeps() {
		return
	}
	running := 0
	for _, o := range s.peers {
		if o.share.running {
			running++
		}
	}
	if p.share.running || s.o.Now() < p.share.again || running >= maxPulls {
		return
	}
	p.share.running = s.o.Go(func(ctx context.Context) {
		share, err := s.pull(ctx, node)
		s.o.Post(func() { s.pulled(node, share, err) })
	})
}

func (s *Shares) pulled(node cluster.NodeID, share wire.Share, err error) {
	outcome := "new"
	if err != nil {
		outcome = "error"
		if s.o.Gate.Pass("intro/" + string(node)) {
			s.o.Logger.Warn().Err(err).Str("peer", string(node)).Msg("share of the onion addresses not pulled")
		}
	}
	s.pulls.WithLabelValues(outcome).Inc()
	p := s.peers[node]
	if p == nil {
		return
	}
	st := &p.share
	st.running = false
	if err == nil {
		st.pieces, st.digest, st.at = share.Pieces, wire.ShareDigest(share.Pieces), share.FetchedAt
		s.o.Changed()
	}
	if st.digest == st.latest {
		st.pause, st.again = 0, 0
		return
	}
	longest := maxPause
	if err != nil {
		longest = maxRetry
	}
	st.pause = min(max(2*st.pause, firstPause), longest)
	st.again = s.o.Now() + st.pause
}

func (s *Shares) pull(ctx context.Context, from cluster.NodeID) (wire.Share, error) {
	var body json.RawMessage
	if err := s.o.Net.Ask(ctx, from, Proto, timeout, struct{}{}, wire.MaxShareBytes, &body); err != nil {
		return wire.Share{}, err
	}
	share, err := wire.DecodeShare(body)
	if err != nil {
		return wire.Share{}, fmt.Errorf("share of %s: %w", from, err)
	}
	return share, nil
}

// serve answers with this host's share.
func (s *Shares) serve(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	err := func() error {
		if err := conn.SetDeadline(time.Now().Add(s.o.Net.Paths().TimeFor(from, timeout))); err != nil {
			return err
		}
		var req struct{}
		if err := transport.ReadFrame(conn, 64, &req); err != nil {
			return err
		}
		var reply wire.Share
		if err := s.o.Call(ctx, func() {
			reply = wire.Share{Pieces: s.own.pieces, FetchedAt: s.own.at}
		}); err != nil {
			return err
		}
		if reply.Pieces == nil {
			reply.Pieces = []wire.SharePiece{}
		}
		return transport.WriteFrame(conn, reply)
	}()
	if err != nil && ctx.Err() == nil && !errors.Is(err, transport.ErrStopped) && s.o.Gate.Pass("serve-intro/"+string(from)) {
		s.o.Logger.Debug().Err(err).Str("peer", string(from)).Msg("share of the onion addresses not served")
	}
}

// view is the share for readers.
func (st *state) view() Share {
	out := Share{Known: st.boot > 0 && st.latest == st.digest, Digest: st.digest}
	if len(st.pieces) > 0 {
		out.FetchedAt = time.Unix(int64(st.at), 0) //nolint:gosec // below 2^53, checked when read
		for _, p := range st.pieces {
			out.Pieces = append(out.Pieces, p.Data)
		}
	}
	return out
}
