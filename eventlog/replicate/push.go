package replicate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
	"github.com/skein-project/skein/internal/wait"
)

// pushAhead is how many messages may wait for their answers.
const pushAhead = 8

// sentAt is when a message was sent whose answer is to come.
type sentAt struct {
	at   time.Time
	kind wire.Type
}

// pusher sends the own chain to one voter.
type pusher struct {
	r  *Replicator
	to cluster.NodeID
}

// run keeps a stream to the voter up until ctx ends, with growing pauses
// between attempts.
func (p *pusher) run(ctx context.Context) {
	r, to := p.r, p.to
	backoff := backoffMin
	for ctx.Err() == nil {
		started := time.Now()
		err := p.session(ctx)
		r.stab.setConnected(to, false)
		if ctx.Err() != nil {
			return
		}
		err = r.m.ended(err)
		r.log.Debug().Str("peer", string(to)).Err(err).Msg("push stream ended")
		if time.Since(started) > backoffMax {
			backoff = backoffMin
		}
		// Between half and the whole of the pause, so that many hosts spread out.
		if wait.For(ctx, time.Duration((0.5+r.o.Float()/2)*float64(backoff))) != nil {
			return
		}
		backoff = min(2*backoff, backoffMax)
	}
}

// session is the life of one push stream.
func (p *pusher) session(ctx context.Context) error {
	r, to := p.r, p.to
	conn, err := r.dial(ctx, to)
	if err != nil {
		return err
	}
	defer conn.Close()
	src := r.st.Source()
	pos, err := conn.askPosition(src)
	if err != nil {
		return err
	}
	hash, ok, err := r.st.HashAt(src, pos.Mark.Seq)
	if err != nil {
		return err
	}
	if pos.Mark.Seq > 0 && (!ok || hash != pos.Mark.Hash) {
		// Only the heads are signed: ask for them, and begin a new
		// incarnation if they say so too.
		if _, err := r.pull(ctx, to, 0, r.dial); err != nil {
			return err
		}
		return fmt.Errorf("%w: %s has %s up to seq %d, the disk up to %d", store.ErrRolledBack, to, src, pos.Mark.Seq, r.st.Head(src).Seq)
	}
	r.stab.setConnected(to, true)
	r.stab.acked(to, src, pos)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan sentAt, pushAhead) // one per unanswered message; full: the sender waits
	var wg sync.WaitGroup
	defer wg.Wait()
	defer conn.Close() // wakes the reader before the wait
	wg.Go(func() { cancel(p.readAcks(conn, src, slots)) })
	err = p.sendEvents(ctx, conn, src, pos.Mark.Seq+1, slots)
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// sendEvents pushes the own chain from seq on as it grows, and a ping when it
// does not. It ends with an error, or when ctx ends or the own chain is
// another one.
func (p *pusher) sendEvents(ctx context.Context, conn *Conn, src event.SourceID, from uint64, slots chan<- sentAt) error {
	st := p.r.st
	rd := st.Reader(src, from)
	defer rd.Close()
	ping := time.NewTimer(p.pause())
	defer ping.Stop()
	for ctx.Err() == nil {
		changed := st.Changed()
		if st.Source() != src {
			return errors.New("own chain has a new incarnation")
		}
		kind := wire.MsgPush
		payload, _, err := rd.Run(store.RunBytes)
		if errors.Is(err, io.EOF) {
			kind, payload = wire.MsgPing, wire.AppendSource(nil, src)
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
		if err := conn.SetWriteDeadline(time.Now().Add(p.r.o.IOTimeout)); err != nil {
			return err
		}
		if len(slots) == 1 { // else the answer to an earlier one is due
			if err := p.expect(conn, answerSlack); err != nil {
				return err
			}
		}
		if err := wire.WriteMessage(conn, kind, payload); err != nil {
			return err
		}
		ping.Reset(p.pause())
	}
	return nil
}

// pause is how long a stream is silent before a ping asks whether the voter is
// there. Where all that can be reached must acknowledge, one that is gone holds
// the others up until that is noticed. A majority waits for nobody, and a push
// that is not answered ends the stream as soon as ever.
func (p *pusher) pause() time.Duration {
	if p.r.Voters().Mode == cluster.ModeAvailable {
		return pingEvery
	}
	return min(pingQuiet, max(pingEvery, 2*p.r.o.IOTimeout))
}

// expect ends the stream if no answer comes within what one may take and slack.
func (p *pusher) expect(conn *Conn, slack time.Duration) error {
	return conn.SetReadDeadline(time.Now().Add(slack + p.r.o.IOTimeout))
}

// readAcks reads the answers to pushes and pings. It ends when the stream
// does, or when the voter leaves one unanswered for longer than a timeout.
func (p *pusher) readAcks(conn *Conn, src event.SourceID, slots <-chan sentAt) error {
	for {
		// The sender shortens this when it asks the next thing, once that has its
		// slot: one of the two sees what the other did.
		if err := p.expect(conn, p.pause()+answerSlack); err != nil {
			return err
		}
		if len(slots) > 0 {
			if err := p.expect(conn, answerSlack); err != nil {
				return err
			}
		}
		m, err := conn.answer()
		if err != nil {
			return err
		}
		if m.Kind != wire.MsgAck {
			return fmt.Errorf("%w: answer %d to a push", wire.ErrPeer, m.Kind)
		}
		a, err := wire.DecodeAck(m.Payload)
		if err != nil {
			return err
		}
		if own := p.r.st.Head(src); a.Mark.Seq > own.Seq {
			return fmt.Errorf("%w: acknowledges seq %d of %s, which ends at %d", wire.ErrPeer, a.Mark.Seq, src, own.Seq)
		}
		p.r.stab.acked(p.to, src, a)
		select {
		case sent := <-slots:
			if sent.kind == wire.MsgPush {
				p.r.m.ackTime.Observe(time.Since(sent.at).Seconds())
			}
		default:
			return fmt.Errorf("%w: more answers than questions", wire.ErrPeer)
		}
	}
}
