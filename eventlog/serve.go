package eventlog

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
)

const (
	runBytes   = 1 << 20 // what a run is filled up to
	idleFactor = 6
)

// Serve answers the questions of one stream of Proto until the other side, a
// protocol error, silence, or ctx ends it. It closes conn. The caller bounds
// the number of streams.
func (l *Log) Serve(ctx context.Context, from cluster.NodeID, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	defer conn.Close()
	br := bufio.NewReaderSize(conn, 64<<10)
	s := &stream{l: l, from: from, conn: conn, readers: map[cluster.SourceID]*chainReader{}}
	defer s.close()
	for {
		if err := conn.SetReadDeadline(time.Now().Add(idleFactor * l.o.IOTimeout)); err != nil {
			return
		}
		m, err := readMessage(br)
		if err == nil {
			err = s.reply(ctx, m)
		}
		if err == nil {
			continue
		}
		err = l.ended(err)
		if !errors.Is(err, io.EOF) && ctx.Err() == nil {
			l.log.Debug().Str("peer", string(from)).Err(err).Msg("log stream ended")
		}
		return
	}
}

// stream is one that is served. It belongs to the goroutine that serves it.
type stream struct {
	l       *Log
	from    cluster.NodeID
	conn    net.Conn
	readers map[cluster.SourceID]*chainReader
	told    map[cluster.SourceID]uint64 // heads that a follower was told of; nil: it follows not
}

func (s *stream) close() {
	for _, r := range s.readers {
		r.close()
	}
	s.closeTail()
}

// reply answers one question. An error ends the stream.
func (s *stream) reply(ctx context.Context, m message) error {
	kind, payload, err := s.answerTo(ctx, m)
	if err != nil {
		text := err.Error()
		kind, payload = msgSorry, []byte(text[:min(len(text), msgTextLimit)])
	}
	if dErr := s.conn.SetWriteDeadline(time.Now().Add(s.l.o.IOTimeout)); dErr != nil {
		return dErr
	}
	if wErr := writeMessage(s.conn, kind, payload); wErr != nil {
		return errors.Join(err, wErr)
	}
	return err
}

func (s *stream) answerTo(ctx context.Context, m message) (messageType, []byte, error) {
	l, from := s.l, s.from
	switch m.kind {
	case msgHeads:
		return l.answerHeads(m.payload)
	case msgPosition, msgPing:
		src, rest, err := cutSource(m.payload)
		if err != nil || len(rest) > 0 {
			return 0, nil, fmt.Errorf("%w: position question", ErrPeer)
		}
		if m.kind == msgPosition && src.Node == from {
			if err := l.level(ctx, from); err != nil {
				return 0, nil, err
			}
		}
		return msgAck, l.position(src).encode(), nil
	case msgMark:
		return l.answerMark(m.payload)
	case msgForks:
		return msgForksAre, appendForks(nil, l.Forks()), nil
	case msgProof:
		return l.answerProof(m.payload)
	case msgWant:
		return s.answerWant(m.payload)
	case msgTail:
		return s.answerTail(ctx, m.payload)
	case msgPush:
		ctx, cancel := context.WithTimeout(ctx, l.o.IOTimeout)
		defer cancel()
		ru, err := l.receive(ctx, m.payload)
		if err != nil {
			return 0, nil, err
		}
		if ru.marks() {
			if err := l.level(ctx, from); err != nil {
				return 0, nil, err
			}
		}
		// The promise is read after the run is durable: a candidate that was
		// promised more before this moment gets heads that include it.
		return msgAck, l.position(ru.head.Source).encode(), nil
	}
	return l.snap.answer(from, m)
}

// level makes this log hold all that from holds, before a part of from's own
// chain is acknowledged: at the start of a stream, and with every event that
// speaks of other chains. An acknowledged term_start so stands for its whole
// cut, and a stable one means that a majority holds the cut.
func (l *Log) level(ctx context.Context, from cluster.NodeID) error {
	ctx, cancel := context.WithTimeout(ctx, l.o.IOTimeout)
	defer cancel()
	if _, err := l.pull(ctx, from, 0); err != nil && !errors.Is(err, ErrEquivocation) {
		return fmt.Errorf("catch up with %s before acknowledging its chain: %w", from, err)
	}
	return nil
}

// marks reports whether the run holds an event that other chains matter to.
func (r *run) marks() bool {
	return slices.ContainsFunc(r.events, func(e cluster.Event) bool {
		return e.Kind == cluster.KindTermStart || e.Kind == cluster.KindConfigChanged
	})
}

func (l *Log) position(src cluster.SourceID) ack {
	h := l.Head(src)
	return ack{mark: cluster.Mark{Seq: h.Seq, Hash: h.Hash}, promised: l.o.Promised()}
}

func (l *Log) answerHeads(b []byte) (messageType, []byte, error) {
	if len(b) != 24 {
		return 0, nil, fmt.Errorf("%w: heads question of %d bytes", ErrPeer, len(b))
	}
	term := cluster.Term(binary.BigEndian.Uint64(b))
	if promised := l.o.Promised(); term > promised || term > 0 && promised == Abstaining {
		// Heads for a term count only after the promise: from then on older
		// terms get no acknowledgement that the heads could miss. Those of a
		// voter whose disk forgot may lack what it acknowledged before.
		return msgRefused, binary.BigEndian.AppendUint64(nil, uint64(promised)), nil
	}
	if term == 0 && l.Digest() == [16]byte(b[8:]) {
		return msgSame, nil, nil
	}
	heads, err := record.AppendHeads(nil, l.Heads())
	if err != nil {
		return 0, nil, err
	}
	return msgHeadsAre, heads, nil
}

// maxReaders bounds the files that one stream keeps open.
const maxReaders = 8

func (s *stream) answerWant(b []byte) (messageType, []byte, error) {
	src, rest, err := cutSource(b)
	if err != nil {
		return 0, nil, err
	}
	if len(rest) != 8 {
		return 0, nil, fmt.Errorf("%w: range question", ErrPeer)
	}
	from := binary.BigEndian.Uint64(rest)
	r := s.readers[src]
	if r == nil || r.next != from {
		if r == nil && len(s.readers) >= maxReaders {
			for src, old := range s.readers {
				old.close()
				delete(s.readers, src)
			}
		}
		if r != nil {
			r.close()
		}
		r = s.l.reader(src, from)
		s.readers[src] = r
	}
	frames, _, err := r.run(runBytes)
	if errors.Is(err, io.EOF) {
		return msgNothing, nil, nil
	}
	if gone, ok := errors.AsType[*CompactedError](err); ok {
		return msgCompacted, binary.BigEndian.AppendUint64(nil, gone.Oldest[src]+1), nil
	}
	if err != nil {
		return 0, nil, err
	}
	return msgRun, frames, nil
}
