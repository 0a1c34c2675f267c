package replicate

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

// idleFactor times the I/O timeout is how long a stream may be silent.
const idleFactor = 6

// Serve answers the questions of one stream of wire.Proto until the other side, a
// protocol error, silence, or ctx ends it. It closes conn. The caller bounds
// the number of streams.
func (r *Replicator) Serve(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	br := bufio.NewReaderSize(conn, readBuffer)
	s := &stream{r: r, from: from, conn: conn, readers: map[event.SourceID]*store.Reader{}}
	defer s.close()
	acks := newAcker(s)
	err := s.serve(ctx, br, acks)
	if ackErr := acks.stop(); ackErr != nil { // it came first, and ended the stream
		err = ackErr
	}
	err = r.m.ended(err)
	if !errors.Is(err, io.EOF) && ctx.Err() == nil {
		r.log.Debug().Str("peer", string(from)).Err(err).Msg("log stream ended")
	}
}

// serve reads questions and answers them in order, until an error ends the
// stream. While pushed runs are on their way to the disk it takes in the next.
func (s *stream) serve(ctx context.Context, br *bufio.Reader, acks *acker) error {
	for {
		if err := s.conn.SetReadDeadline(time.Now().Add(idleFactor * s.r.o.IOTimeout)); err != nil {
			return err
		}
		m, err := wire.ReadMessage(br)
		if err != nil {
			return err
		}
		if m.Kind != wire.MsgPush {
			if !acks.drain() {
				return nil // stop returns its error
			}
			if err := s.reply(s.answerTo(ctx, m)); err != nil {
				return err
			}
			continue
		}
		offerCtx, cancel := context.WithTimeout(ctx, s.r.o.IOTimeout)
		o, err := s.r.offer(offerCtx, m.Payload)
		cancel()
		if err != nil {
			if !acks.drain() {
				return nil
			}
			return s.reply(0, nil, err)
		}
		if !acks.add(ctx, o) {
			return nil
		}
	}
}

// stream is one that is served. It belongs to the goroutine that serves it.
type stream struct {
	r       *Replicator
	from    cluster.NodeID
	conn    net.Conn
	readers map[event.SourceID]*store.Reader
	sent    map[event.SourceID]uint64 // heads that a follower was sent; nil: not following
}

func (s *stream) close() {
	for _, r := range s.readers {
		r.Close()
	}
	s.endFollowing()
}

// reply sends an answer, or says why there is none: an error ends the stream.
func (s *stream) reply(kind wire.Type, payload []byte, err error) error {
	if err != nil {
		text := err.Error()
		kind, payload = wire.MsgSorry, []byte(text[:min(len(text), wire.TextLimit)])
	}
	if dErr := s.conn.SetWriteDeadline(time.Now().Add(s.r.o.IOTimeout)); dErr != nil {
		return dErr
	}
	if wErr := wire.WriteMessage(s.conn, kind, payload); wErr != nil {
		return errors.Join(err, wErr)
	}
	return err
}

func (s *stream) answerTo(ctx context.Context, m wire.Message) (wire.Type, []byte, error) {
	r, from := s.r, s.from
	switch m.Kind {
	case wire.MsgHeads:
		return s.answerHeads(m.Payload)
	case wire.MsgPosition, wire.MsgPing:
		src, rest, err := wire.CutSource(m.Payload)
		if err != nil || len(rest) > 0 {
			return 0, nil, fmt.Errorf("%w: position question", wire.ErrPeer)
		}
		if m.Kind == wire.MsgPosition && src.Node == from {
			if err := r.Level(ctx, from); err != nil {
				return 0, nil, err
			}
		}
		return wire.MsgAck, s.position(src).Encode(), nil
	case wire.MsgMark:
		return s.answerMark(m.Payload)
	case wire.MsgForks:
		return wire.MsgForksAre, wire.AppendForks(nil, r.st.Forks()), nil
	case wire.MsgProof:
		return s.answerProof(m.Payload)
	case wire.MsgWant:
		return s.answerWant(m.Payload)
	case wire.MsgTail:
		return s.answerTail(ctx, m.Payload)
	}
	return r.o.Snapshots.Answer(from, m)
}

func (s *stream) position(src event.SourceID) wire.Ack {
	h := s.r.st.Head(src)
	return wire.Ack{Mark: event.Mark{Seq: h.Seq, Hash: h.Hash}, Promised: s.r.o.Promised()}
}

func (s *stream) answerHeads(b []byte) (wire.Type, []byte, error) {
	if len(b) != 24 {
		return 0, nil, fmt.Errorf("%w: heads question of %d bytes", wire.ErrPeer, len(b))
	}
	term := cluster.Term(binary.BigEndian.Uint64(b))
	if promised := s.r.o.Promised(); term > promised || term > 0 && promised == Abstaining {
		// Heads for a term count only after the promise: from then on older
		// terms get no acknowledgement that the heads could miss. Those of a
		// voter whose disk forgot may lack what it acknowledged before.
		return wire.MsgRefused, binary.BigEndian.AppendUint64(nil, uint64(promised)), nil
	}
	if term == 0 && s.r.st.Digest() == [16]byte(b[8:]) {
		return wire.MsgSame, nil, nil
	}
	heads, err := record.AppendHeads(nil, s.r.st.Heads())
	if err != nil {
		return 0, nil, err
	}
	return wire.MsgHeadsAre, heads, nil
}

// maxReaders bounds the files that one stream keeps open.
const maxReaders = 8

func (s *stream) answerWant(b []byte) (wire.Type, []byte, error) {
	src, rest, err := wire.CutSource(b)
	if err != nil {
		return 0, nil, err
	}
	if len(rest) != 8 {
		return 0, nil, fmt.Errorf("%w: range question", wire.ErrPeer)
	}
	from := binary.BigEndian.Uint64(rest)
	r := s.readers[src]
	if r == nil || r.Next() != from {
		if r == nil && len(s.readers) >= maxReaders {
			for src, old := range s.readers {
				old.Close()
				delete(s.readers, src)
			}
		}
		if r != nil {
			r.Close()
		}
		r = s.r.st.Reader(src, from)
		s.readers[src] = r
	}
	frames, _, err := r.Run(store.RunBytes)
	if errors.Is(err, io.EOF) {
		return wire.MsgNothing, nil, nil
	}
	if gone, ok := errors.AsType[*store.CompactedError](err); ok {
		return wire.MsgCompacted, binary.BigEndian.AppendUint64(nil, gone.Oldest[src]+1), nil
	}
	if err != nil {
		return 0, nil, err
	}
	return wire.MsgRun, frames, nil
}

// answerMark says which hash an event has here.
func (s *stream) answerMark(b []byte) (wire.Type, []byte, error) {
	src, rest, err := wire.CutSource(b)
	if err != nil {
		return 0, nil, err
	}
	if len(rest) != 8 {
		return 0, nil, fmt.Errorf("%w: mark question", wire.ErrPeer)
	}
	a := wire.Ack{Promised: s.r.o.Promised()}
	seq := binary.BigEndian.Uint64(rest)
	if hash, ok, err := s.r.st.HashAt(src, seq); err == nil && ok && seq > 0 {
		a.Mark = event.Mark{Seq: seq, Hash: hash}
	}
	return wire.MsgAck, a.Encode(), nil
}

// answerProof sends a proof that is kept here.
func (s *stream) answerProof(b []byte) (wire.Type, []byte, error) {
	src, rest, err := wire.CutSource(b)
	if err != nil || len(rest) > 0 {
		return 0, nil, fmt.Errorf("%w: proof question", wire.ErrPeer)
	}
	if _, ok := s.r.st.Fork(src); !ok {
		return wire.MsgNothing, nil, nil
	}
	p, err := s.r.st.Proof(src)
	if err != nil {
		s.r.log.Error().Err(err).Msg("proof of equivocation unreadable")
		return wire.MsgNothing, nil, nil
	}
	enc, err := p.AppendBinary(nil)
	return wire.MsgProofIs, enc, err
}
