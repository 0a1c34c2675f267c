package eventlog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/record"
)

const warnAhead = 500 * time.Millisecond

// receive verifies a run that another host sent and stores it durably. Who
// sent it does not matter: the source's signature decides.
func (l *Log) receive(ctx context.Context, b []byte) (*run, error) {
	r, err := l.offer(ctx, b)
	if err != nil {
		return nil, err
	}
	return r.run, l.stored(ctx, r)
}

// offer verifies a run and hands it to the writer; stored waits for it.
func (l *Log) offer(ctx context.Context, b []byte) (*request, error) {
	ru, err := decodeRun(b)
	if err != nil {
		return nil, l.blame("chain", err)
	}
	src := ru.head.Source
	key := l.o.keyOf(src.Node)
	if key == nil {
		return nil, l.blame("unknown_source", fmt.Errorf("%w: %w %s", ErrPeer, errUnknownSource, src.Node))
	}
	if err := record.VerifyHead(l.o.Cluster, ru.head, key); err != nil {
		return nil, l.blame("signature", fmt.Errorf("%w: run of %s: %w", ErrPeer, src, err))
	}
	if err := l.checkClock(ru); err != nil {
		return nil, l.blame("clock", err)
	}
	if err := l.admits(ru); err != nil {
		return nil, fmt.Errorf("store run of %s: %w", src, err)
	}
	r := &request{run: ru, weight: int64(ru.bytes), records: len(ru.events), class: foreign, done: make(chan struct{}, 1)}
	if err := l.in.put(ctx, r); err != nil {
		return nil, fmt.Errorf("store run of %s: %w", src, err)
	}
	return r, nil
}

// stored returns when an offered run is durable, or refused.
func (l *Log) stored(ctx context.Context, r *request) error {
	err := l.await(ctx, r)
	if err == nil {
		return nil
	}
	src := r.run.head.Source
	if errors.Is(err, ErrEquivocation) {
		err = l.blame("equivocation", err)
		if l.unproven(src, r.run.head.Seq) {
			err = errors.Join(err, l.prove(ctx, r.run))
		}
	}
	return fmt.Errorf("store run of %s: %w", src, err)
}

var errUnknownSource = errors.New("no member")

// checkClock refuses events from the future. The last one has the highest
// clock.
func (l *Log) checkClock(ru *run) error {
	last := ru.events[len(ru.events)-1]
	ahead := last.HLC.Time().Sub(l.o.Wall())
	if ahead > l.o.MaxAhead {
		return fmt.Errorf("%w: event %d of %s is %s ahead of this host's clock", ErrPeer, last.Seq, last.Source, ahead.Round(time.Millisecond))
	}
	if ahead > warnAhead && !l.aheadWarned.Swap(true) {
		l.log.Warn().Str("node", string(last.Source.Node)).Float64("ahead_seconds", ahead.Seconds()).
			Msg("events ahead of the local clock; said once")
	}
	return nil
}

// ownElsewhere looks at a peer's heads of chains that this host wrote. If the
// peer holds more of the current one than the disk does, or something else,
// or a later one, the disk was rolled back: to append here would be to
// equivocate, so a new incarnation begins. It reports whether it did.
func (l *Log) ownElsewhere(ctx context.Context, heads []cluster.Head) (bool, error) {
	own := l.Source()
	inc := own.Inc
	for _, h := range heads {
		if h.Source.Node != own.Node || h.Source.Inc < own.Inc {
			continue
		}
		if h.Source == own {
			if h.Seq <= l.baseOf(own).Seq {
				continue // dropped long ago: it lies in a snapshot that voters signed
			}
			hash, ok, err := l.readHash(own, h.Seq)
			if err != nil {
				return false, err // it may be here all the same
			}
			if ok && hash == h.Hash {
				continue // a prefix of what is here
			}
		}
		if err := record.VerifyHead(l.o.Cluster, h, l.o.keyOf(own.Node)); err != nil {
			continue // nobody can make this host drop its chain without its key
		}
		inc = max(inc, h.Source.Inc+1)
	}
	if inc == own.Inc {
		return false, nil
	}
	err := l.renew(ctx, inc, "other hosts know more of "+own.String()+" than the disk")
	if err != nil && l.Source() == own {
		return false, fmt.Errorf("%w: %w", ErrRolledBack, err)
	}
	return true, nil
}

// renew makes the own chain go on as another incarnation.
func (l *Log) renew(ctx context.Context, inc uint64, reason string) error {
	return l.submit(ctx, &request{renew: &renewal{inc: inc, reason: reason}, class: urgent, done: make(chan struct{}, 1)})
}

// hashAt returns the hash of a durable event, if it can be read.
func (l *Log) hashAt(src cluster.SourceID, seq uint64) (cluster.Hash, bool) {
	hash, ok, err := l.readHash(src, seq)
	return hash, ok && err == nil
}

// readHash returns the hash of a durable event; ok is false if there is none.
// An error says that it cannot be told.
func (l *Log) readHash(src cluster.SourceID, seq uint64) (hash cluster.Hash, ok bool, err error) {
	if h := l.Head(src); h.Seq == seq {
		return h.Hash, true, nil
	}
	if base := l.baseOf(src); base.Seq == seq {
		return base.Hash, true, nil
	}
	for e, err := range l.Read(src, seq) {
		if err != nil {
			return hash, false, fmt.Errorf("read event %d of %s: %w", seq, src, err)
		}
		return e.Hash, e.Seq == seq, nil
	}
	return hash, false, nil
}
