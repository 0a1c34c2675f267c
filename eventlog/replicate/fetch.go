package replicate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/wire"
)

// fetchAhead is how many runs of a fetch may wait for the writer: while one is
// written the next is verified, and the one after it on its way.
const fetchAhead = 4

// fetchRuns pulls the events of one chain after have, at least up to upto.
// Unless the error wraps errStream the stream can carry more questions.
func (p *puller) fetchRuns(ctx context.Context, src event.SourceID, have, upto uint64) (n int, err error) {
	f := fetcher{r: p.r, conn: p.conn, src: src, have: have, upto: upto}
	defer func() {
		if err == nil {
			return
		}
		if f.asked && !errors.Is(err, errStream) {
			_, lost := f.answer() // more questions may follow on the stream
			err = errors.Join(err, lost)
		}
		// What was verified before the error stays.
		err = errors.Join(err, f.settle(ctx, 0))
		n = f.n
	}()
	if err := f.want(); err != nil {
		return 0, err
	}
	for f.have < upto {
		if err := f.step(ctx); err != nil {
			return f.n, err
		}
	}
	return f.n, f.settle(ctx, 0)
}

// fetcher pulls one chain over a stream.
type fetcher struct {
	r       *Replicator
	conn    *Conn
	src     event.SourceID
	have    uint64   // stored or pending up to here
	upto    uint64   // to be reached
	asked   bool     // an answer is under way
	pending []*offer // offered to the writer, at most fetchAhead
	n       int      // events stored
}

// step takes in one run. While it is verified the peer reads the next.
func (f *fetcher) step(ctx context.Context) error {
	m, err := f.answer()
	if err != nil {
		return err
	}
	if m.Kind == wire.MsgCompacted {
		return fmt.Errorf("%w: seq %d", wire.ErrDropped, f.have+1)
	}
	if m.Kind != wire.MsgRun {
		return fmt.Errorf("%w: answer %d to a range question below its own head", wire.ErrPeer, m.Kind)
	}
	// Until the run is verified, where it ends is only the peer's claim.
	end, err := wire.RunEnd(m.Payload)
	if err != nil {
		return err
	}
	if end.Source != f.src || end.Seq <= f.have {
		return fmt.Errorf("%w: range question answered with another range", wire.ErrPeer)
	}
	if f.have = end.Seq; f.have < f.upto {
		if err := f.want(); err != nil {
			return err
		}
	}
	r, err := f.r.offer(ctx, m.Payload)
	if err != nil {
		return err
	}
	f.pending = append(f.pending, r)
	return f.settle(ctx, fetchAhead)
}

// settle waits until at most so many runs wait for the writer.
func (f *fetcher) settle(ctx context.Context, most int) error {
	for len(f.pending) > most {
		r := f.pending[0]
		f.pending = f.pending[1:]
		if err := f.r.stored(ctx, r); err != nil {
			return err
		}
		f.n += len(r.run.Events)
	}
	return nil
}

// want asks for the events after have.
func (f *fetcher) want() error {
	err := f.conn.SetDeadline(time.Now().Add(f.conn.timeout))
	if err == nil {
		err = wire.WriteMessage(f.conn, wire.MsgWant, binary.BigEndian.AppendUint64(wire.AppendSource(nil, f.src), f.have+1))
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errStream, err)
	}
	f.asked = true
	return nil
}

func (f *fetcher) answer() (wire.Message, error) {
	f.asked = false
	err := f.conn.SetDeadline(time.Now().Add(f.conn.timeout))
	if err != nil {
		return wire.Message{}, fmt.Errorf("%w: %w", errStream, err)
	}
	m, err := f.conn.answer()
	if err != nil {
		return m, fmt.Errorf("%w: %w", errStream, err)
	}
	return m, nil
}
