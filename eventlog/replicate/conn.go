package replicate

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

// errStream says that a stream can carry no more questions.
var errStream = errors.New("log stream broken")

// Conn is a stream to another host, which asks and reads the answers. It belongs
// to one goroutine.
type Conn struct {
	net.Conn
	br      *bufio.Reader
	timeout time.Duration
	stop    func() bool
}

// readBuffer is of the size of a TLS record: no read of a stream brings more.
const readBuffer = 16 << 10

// dialTrips is how many round trips the opening of a stream takes.
const dialTrips = 3

// Follow opens a stream for what this host only reads, and which can wait. It closes when ctx
// ends, at the latest.
func (r *Replicator) Follow(ctx context.Context, to cluster.NodeID) (*Conn, error) {
	return r.open(ctx, to, r.o.Follow)
}

// dial opens a stream on which a term or what is stable depends: it is always tried.
func (r *Replicator) dial(ctx context.Context, to cluster.NodeID) (*Conn, error) {
	return r.open(ctx, to, r.o.Dial)
}

func (r *Replicator) open(ctx context.Context, to cluster.NodeID, dial func(context.Context, cluster.NodeID) (net.Conn, error)) (*Conn, error) {
	if dial == nil {
		return nil, errors.New("no way to reach other hosts")
	}
	rtt := r.o.RTT(to)
	dctx, cancel := context.WithTimeout(ctx, r.o.IOTimeout+dialTrips*rtt)
	defer cancel()
	conn, err := dial(dctx, to)
	if err != nil {
		return nil, fmt.Errorf("open log stream to %s: %w", to, err)
	}
	return &Conn{
		Conn: conn, br: bufio.NewReaderSize(conn, readBuffer), timeout: r.o.IOTimeout + rtt,
		stop: context.AfterFunc(ctx, func() { _ = conn.Close() }),
	}, nil
}

// Close closes the stream.
func (c *Conn) Close() {
	c.stop()
	_ = c.Conn.Close()
}

// Ask sends one question and reads its answer.
func (c *Conn) Ask(kind wire.Type, question []byte) (wire.Message, error) {
	if err := c.SetDeadline(time.Now().Add(c.timeout)); err != nil {
		return wire.Message{}, err
	}
	if err := wire.WriteMessage(c, kind, question); err != nil {
		return wire.Message{}, err
	}
	return c.answer()
}

func (c *Conn) answer() (wire.Message, error) {
	m, err := wire.ReadMessage(c.br)
	if err != nil {
		return m, wire.NoEOF(err)
	}
	if m.Kind == wire.MsgSorry {
		return m, fmt.Errorf("peer ended the stream: %.512q", m.Payload)
	}
	return m, nil
}

func (c *Conn) askPosition(src event.SourceID) (wire.Ack, error) {
	m, err := c.Ask(wire.MsgPosition, wire.AppendSource(nil, src))
	if err != nil {
		return wire.Ack{}, err
	}
	if m.Kind != wire.MsgAck {
		return wire.Ack{}, fmt.Errorf("%w: answer %d to a position question", wire.ErrPeer, m.Kind)
	}
	return wire.DecodeAck(m.Payload)
}

func (c *Conn) askHeads(term cluster.Term, digest [16]byte) (heads []event.Head, same bool, err error) {
	m, err := c.Ask(wire.MsgHeads, wire.HeadsQuestion(term, digest))
	if err != nil {
		return nil, false, err
	}
	switch {
	case m.Kind == wire.MsgSame && term == 0:
		return nil, true, nil
	case m.Kind == wire.MsgRefused && len(m.Payload) == 8:
		return nil, false, fmt.Errorf("%w: it has promised term %d, not %d", ErrRefused, binary.BigEndian.Uint64(m.Payload), term)
	case m.Kind != wire.MsgHeadsAre:
		return nil, false, fmt.Errorf("%w: answer %d to a heads question", wire.ErrPeer, m.Kind)
	}
	heads, err = record.DecodeHeads(m.Payload, store.MaxSources)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", wire.ErrPeer, err)
	}
	return heads, false, nil
}

// askChanges asks for the ends of the chains that changed since the last
// answer on this stream. There are none if nothing did for a while.
func (c *Conn) askChanges(digest [16]byte) ([]event.Head, error) {
	m, err := c.Ask(wire.MsgTail, wire.HeadsQuestion(0, digest))
	if err != nil {
		return nil, err
	}
	switch m.Kind {
	case wire.MsgSame:
		return nil, nil
	case wire.MsgHeadsAre:
		heads, err := record.DecodeHeads(m.Payload, store.MaxSources)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", wire.ErrPeer, err)
		}
		return heads, nil
	case wire.MsgRefused:
		return nil, errors.New("peer serves enough followers already")
	}
	return nil, fmt.Errorf("%w: answer %d to a question for changes", wire.ErrPeer, m.Kind)
}

// askMark asks for the hash of one event. Nobody signed the answer.
func (c *Conn) askMark(src event.SourceID, seq uint64) (cluster.Hash, error) {
	m, err := c.Ask(wire.MsgMark, binary.BigEndian.AppendUint64(wire.AppendSource(nil, src), seq))
	if err != nil {
		return cluster.Hash{}, fmt.Errorf("%w: %w", errStream, err)
	}
	if m.Kind != wire.MsgAck {
		return cluster.Hash{}, fmt.Errorf("%w: answer %d to a mark question", wire.ErrPeer, m.Kind)
	}
	a, err := wire.DecodeAck(m.Payload)
	if err == nil && a.Mark.Seq != seq {
		err = fmt.Errorf("%w: no event %d of %s below its own head", wire.ErrPeer, seq, src)
	}
	return a.Mark.Hash, err
}
