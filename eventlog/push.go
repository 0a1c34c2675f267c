package eventlog

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/cluster"
)

// replicator keeps one stream to each other voter, over which new own events
// go at once, and pulls what is missing here.
type replicator struct {
	l    *Log
	stab stability

	tailing atomic.Bool // a peer tells of changes at once

	mu   sync.Mutex
	busy map[cluster.NodeID]bool // peers that Sync is pulling from
}

const (
	// pushAhead is how many messages may wait for their answers.
	pushAhead  = 8
	pingEvery  = time.Second
	backoffMin = 50 * time.Millisecond
	backoffMax = 2 * time.Second
)

// run keeps the set of pushers equal to the set of other voters. It ends,
// with all that it started, when ctx ends.
func (rep *replicator) run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	if rep.l.o.Dial == nil {
		<-ctx.Done()
		return
	}
	wg.Go(func() { rep.pullLoop(ctx) })
	wg.Go(func() { rep.tailLoop(ctx) })
	stops := map[cluster.NodeID]context.CancelFunc{}
	for {
		rep.stab.mu.Lock()
		changed := rep.stab.changed
		for v := range rep.stab.voters {
			if stops[v] == nil {
				pctx, cancel := context.WithCancel(ctx)
				stops[v] = cancel
				wg.Go(func() { rep.push(pctx, v) })
			}
		}
		for v, cancel := range stops {
			if rep.stab.voters[v] == nil {
				cancel()
				delete(stops, v)
			}
		}
		rep.stab.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			for _, cancel := range stops {
				cancel()
			}
			return
		}
	}
}

// sentAt is when a message was sent whose answer is to come.
type sentAt struct {
	at   time.Time
	kind messageType
}

// push keeps a stream to one voter up until ctx ends, with growing pauses
// between attempts.
func (rep *replicator) push(ctx context.Context, to cluster.NodeID) {
	backoff := backoffMin
	for ctx.Err() == nil {
		started := time.Now()
		err := rep.session(ctx, to)
		rep.l.setConnected(to, false)
		if ctx.Err() != nil {
			return
		}
		err = rep.l.ended(err)
		rep.l.log.Debug().Str("peer", string(to)).Err(err).Msg("push stream ended")
		if time.Since(started) > backoffMax {
			backoff = backoffMin
		}
		// Between half and the whole of the pause, so that a crowd spreads.
		if !after(ctx, time.Duration((0.5+rep.l.o.Float()/2)*float64(backoff))) {
			return
		}
		backoff = min(2*backoff, backoffMax)
	}
}

// session is the life of one push stream.
func (rep *replicator) session(ctx context.Context, to cluster.NodeID) error {
	l := rep.l
	conn, done, err := l.dial(ctx, to)
	if err != nil {
		return err
	}
	defer done()
	src := l.Source()
	br := bufio.NewReader(conn)
	pos, err := l.askPosition(conn, br, msgPosition, src)
	if err != nil {
		return err
	}
	hash, ok, err := l.readHash(src, pos.mark.Seq)
	if err != nil {
		return err
	}
	if pos.mark.Seq > 0 && (!ok || hash != pos.mark.Hash) {
		// Only the heads are signed: ask for them, and begin a new
		// incarnation if they say so too.
		if _, err := l.pull(ctx, to, 0); err != nil {
			return err
		}
		return fmt.Errorf("%w: %s has %s up to seq %d, the disk up to %d", ErrRolledBack, to, src, pos.mark.Seq, l.Head(src).Seq)
	}
	l.setConnected(to, true)
	l.acked(to, src, pos)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan sentAt, pushAhead) // one per unanswered message; full: the sender waits
	var wg sync.WaitGroup
	defer wg.Wait()
	defer done() // wakes the reader before the wait
	wg.Go(func() { cancel(l.readAcks(conn, br, to, src, slots)) })
	err = l.sendEvents(ctx, conn, src, pos.mark.Seq+1, slots)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// dial opens a stream that closes when ctx ends or done is called.
func (l *Log) dial(ctx context.Context, to cluster.NodeID) (conn net.Conn, done func(), err error) {
	if l.o.Dial == nil {
		return nil, nil, errors.New("no way to reach other hosts")
	}
	dctx, cancel := context.WithTimeout(ctx, l.o.IOTimeout)
	defer cancel()
	conn, err = l.o.Dial(dctx, to)
	if err != nil {
		return nil, nil, fmt.Errorf("open log stream to %s: %w", to, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return conn, func() { stop(); _ = conn.Close() }, nil
}

// ask sends one question and reads its answer.
func (l *Log) ask(conn net.Conn, br *bufio.Reader, kind messageType, payload []byte) (message, error) {
	if err := conn.SetDeadline(time.Now().Add(l.o.IOTimeout)); err != nil {
		return message{}, err
	}
	if err := writeMessage(conn, kind, payload); err != nil {
		return message{}, err
	}
	return readAnswer(br)
}

func readAnswer(br *bufio.Reader) (message, error) {
	m, err := readMessage(br)
	if err != nil {
		return m, noEOF(err)
	}
	if m.kind == msgSorry {
		return m, fmt.Errorf("peer ended the stream: %.512q", m.payload)
	}
	return m, nil
}

func (l *Log) askPosition(conn net.Conn, br *bufio.Reader, kind messageType, src cluster.SourceID) (ack, error) {
	m, err := l.ask(conn, br, kind, appendSource(nil, src))
	if err != nil {
		return ack{}, err
	}
	if m.kind != msgAck {
		return ack{}, fmt.Errorf("%w: answer %d to a position question", ErrPeer, m.kind)
	}
	return decodeAck(m.payload)
}

// sendEvents pushes the own chain from seq on as it grows, and a ping when it
// does not. It ends with an error, or when ctx ends or the own chain is
// another one.
func (l *Log) sendEvents(ctx context.Context, conn net.Conn, src cluster.SourceID, from uint64, slots chan<- sentAt) error {
	r := l.reader(src, from)
	defer r.close()
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	for ctx.Err() == nil {
		changed := l.Changed()
		if l.Source() != src {
			return errors.New("own chain has a new incarnation")
		}
		kind := msgPush
		payload, _, err := r.run(runBytes)
		if errors.Is(err, io.EOF) {
			kind, payload = msgPing, appendSource(nil, src)
			select {
			case <-changed:
				continue
			case <-ping.C:
			case <-ctx.Done():
				return nil
			}
		} else if err != nil {
			return err
		}
		select {
		case slots <- sentAt{time.Now(), kind}:
		case <-ctx.Done(): // the reader gave up waiting for an answer
			return nil
		}
		if err := conn.SetWriteDeadline(time.Now().Add(l.o.IOTimeout)); err != nil {
			return err
		}
		if err := writeMessage(conn, kind, payload); err != nil {
			return err
		}
	}
	return nil
}

// readAcks reads the answers to pushes and pings. It ends when the stream
// does, or when the voter is silent for longer than a ping and a timeout.
func (l *Log) readAcks(conn net.Conn, br *bufio.Reader, to cluster.NodeID, src cluster.SourceID, slots <-chan sentAt) error {
	for {
		if err := conn.SetReadDeadline(time.Now().Add(pingEvery + l.o.IOTimeout)); err != nil {
			return err
		}
		m, err := readAnswer(br)
		if err != nil {
			return err
		}
		if m.kind != msgAck {
			return fmt.Errorf("%w: answer %d to a push", ErrPeer, m.kind)
		}
		a, err := decodeAck(m.payload)
		if err != nil {
			return err
		}
		if own := l.Head(src); a.mark.Seq > own.Seq {
			return fmt.Errorf("%w: acknowledges seq %d of %s, which ends at %d", ErrPeer, a.mark.Seq, src, own.Seq)
		}
		l.acked(to, src, a)
		select {
		case sent := <-slots:
			if sent.kind == msgPush {
				l.m.ackTime.Observe(time.Since(sent.at).Seconds())
			}
		default:
			return fmt.Errorf("%w: more answers than questions", ErrPeer)
		}
	}
}

// headsQuestion encodes a heads question.
func headsQuestion(term cluster.Term, digest [16]byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, uint64(term))
	return append(b, digest[:]...)
}
