package eventlog

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
)

const (
	// maxTails bounds how many hosts this log tells of changes at once.
	maxTails = 64
	// tailFor is how long one peer is asked before another one is chosen.
	tailFor = 30 * time.Second
	// tailGap is the least pause between two answers: what changes meanwhile
	// comes with the next.
	tailGap = 50 * time.Millisecond
	// tailWait is how long an answer may wait for a change.
	tailWait = 2 * time.Second
)

// tailLoop makes a host to which nothing is pushed learn of new events at once:
// it keeps asking a voter, or another host, what has changed, and fetches that.
// What it misses comes with the pulls. It ends when ctx ends.
func (rep *replicator) tailLoop(ctx context.Context) {
	l := rep.l
	if l.o.PullEvery < 0 {
		return
	}
	for {
		if peer, ok := rep.tailPeer(); ok {
			err := l.tail(ctx, peer)
			l.m.tailing.Set(0)
			rep.tailing.Store(false)
			if err != nil && ctx.Err() == nil {
				l.log.Debug().Str("peer", string(peer)).Err(err).Msg("following of a peer ended")
			}
		}
		// Between half and the whole of a pull's pause, so that a crowd spreads.
		if !after(ctx, time.Duration((0.5+l.o.Float()/2)*float64(l.o.PullEvery))) {
			return
		}
	}
}

// tailPeer chooses whom to follow: mostly a voter, at times any host, since
// each tells only so many. A voter follows nobody.
func (rep *replicator) tailPeer() (cluster.NodeID, bool) {
	l := rep.l
	rep.stab.mu.Lock()
	cfg := rep.stab.cfg
	rep.stab.mu.Unlock()
	if cfg.IsZero() || cfg.Has(l.o.Self) {
		return "", false
	}
	peers := slices.DeleteFunc(slices.Clone(l.o.Peers()), func(n cluster.NodeID) bool { return n == l.o.Self })
	voters := slices.DeleteFunc(slices.Clone(peers), func(n cluster.NodeID) bool { return !cfg.Has(n) })
	if len(voters) > 0 && l.o.Float() < 0.75 {
		peers = voters
	}
	if len(peers) == 0 {
		return "", false
	}
	return peers[int(l.o.Float()*float64(len(peers)))%len(peers)], true
}

// tail follows one peer for a while.
func (l *Log) tail(ctx context.Context, peer cluster.NodeID) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration((0.9+l.o.Float()/5)*float64(tailFor)))
	defer cancel()
	conn, done, err := l.dial(ctx, peer)
	if err != nil {
		return err
	}
	defer done()
	br := bufio.NewReaderSize(conn, 64<<10)
	for ctx.Err() == nil {
		heads, err := l.askChanges(conn, br)
		if err != nil {
			return l.tailErr(ctx, err)
		}
		l.m.tailing.Set(1)
		l.rep.tailing.Store(true)
		if len(heads) == 0 {
			after(ctx, tailGap) // it should have waited itself
			continue
		}
		if _, err := l.ownElsewhere(ctx, heads); err != nil {
			return err
		}
		if _, err := l.fetchAll(ctx, conn, br, heads, 0); err != nil {
			l.snap.missed(peer, err)
			return l.tailErr(ctx, err)
		}
		after(ctx, tailGap)
	}
	return nil
}

// tailErr hides what the planned end of a session breaks, and counts the rest.
func (l *Log) tailErr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return l.ended(err)
}

// askChanges asks for the ends of the chains that changed since the last
// answer on this stream. There are none if nothing did for a while.
func (l *Log) askChanges(conn net.Conn, br *bufio.Reader) ([]cluster.Head, error) {
	m, err := l.ask(conn, br, msgTail, headsQuestion(0, l.Digest()))
	if err != nil {
		return nil, err
	}
	switch m.kind {
	case msgSame:
		return nil, nil
	case msgHeadsAre:
		heads, err := record.DecodeHeads(m.payload, MaxSources)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrPeer, err)
		}
		return heads, nil
	case msgRefused:
		return nil, errors.New("peer tells enough others")
	}
	return nil, fmt.Errorf("%w: answer %d to a question for changes", ErrPeer, m.kind)
}

// answerTail answers with what changed since the last answer on the stream, at
// once or when something does.
func (s *stream) answerTail(ctx context.Context, b []byte) (messageType, []byte, error) {
	l := s.l
	if len(b) != 24 || binary.BigEndian.Uint64(b) != 0 {
		return 0, nil, fmt.Errorf("%w: question for changes", ErrPeer)
	}
	if s.told == nil {
		if l.tails.Add(1) > maxTails {
			l.tails.Add(-1)
			return msgRefused, binary.BigEndian.AppendUint64(nil, uint64(l.o.Promised())), nil
		}
		s.told = map[cluster.SourceID]uint64{}
		if heads := l.Heads(); l.Digest() == [16]byte(b[8:]) {
			for _, h := range heads {
				s.told[h.Source] = h.Seq
			}
		}
	}
	end := time.NewTimer(min(tailWait, l.o.IOTimeout/2))
	defer end.Stop()
	for {
		changed := l.Changed()
		if heads := s.news(); len(heads) > 0 {
			frames, err := record.AppendHeads(nil, heads)
			return msgHeadsAre, frames, err
		}
		if err := l.Err(); err != nil {
			return 0, nil, err
		}
		select {
		case <-changed:
		case <-end.C:
			return msgSame, nil, nil
		case <-ctx.Done():
			return 0, nil, context.Cause(ctx)
		}
	}
}

// news are the heads that the other side was not told of.
func (s *stream) news() []cluster.Head {
	heads := slices.DeleteFunc(s.l.Heads(), func(h cluster.Head) bool { return s.told[h.Source] == h.Seq })
	for _, h := range heads {
		s.told[h.Source] = h.Seq
	}
	return heads
}

// closeTail gives back the place of a stream that followed.
func (s *stream) closeTail() {
	if s.told != nil {
		s.l.tails.Add(-1)
	}
}
