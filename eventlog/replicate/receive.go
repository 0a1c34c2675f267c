package replicate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/record"
	"github.com/skein-project/skein/eventlog/stamps"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

const warnAhead = 500 * time.Millisecond

// offer is a run of another host's chain on its way to the disk.
type offer struct {
	run  *wire.Run
	wait func(context.Context) error
}

// Receive verifies a run that another host sent and stores it durably. Who
// sent it does not matter: the source's signature decides.
func (r *Replicator) Receive(ctx context.Context, b []byte) (*wire.Run, error) {
	o, err := r.offer(ctx, b)
	if err != nil {
		return nil, err
	}
	return o.run, r.stored(ctx, o)
}

// offer verifies a run and hands it to the writer; stored waits for it.
func (r *Replicator) offer(ctx context.Context, b []byte) (*offer, error) {
	ru, err := wire.DecodeRun(b)
	if err != nil {
		return nil, r.m.blame("chain", err)
	}
	src := ru.Head.Source
	key := r.st.KeyOf(src.Node)
	if key == nil {
		return nil, r.m.blame("unknown_source", fmt.Errorf("%w: %w %s", wire.ErrPeer, errUnknownSource, src.Node))
	}
	if err := record.VerifyHead(r.o.Cluster, ru.Head, key); err != nil {
		return nil, r.m.blame("signature", fmt.Errorf("%w: run of %s: %w", wire.ErrPeer, src, err))
	}
	if err := r.checkClock(ru); err != nil {
		return nil, r.m.blame("clock", err)
	}
	if reason, err := r.o.Admit(src.Node, int64(ru.Bytes)); err != nil {
		r.m.peerErrors.WithLabelValues(reason).Inc()
		return nil, fmt.Errorf("store run of %s: %w", src, err)
	}
	wait, err := r.o.Writer.Offer(ctx, ru)
	if err != nil {
		return nil, fmt.Errorf("store run of %s: %w", src, err)
	}
	return &offer{run: ru, wait: wait}, nil
}

// stored returns when an offered run is durable, or refused.
func (r *Replicator) stored(ctx context.Context, o *offer) error {
	err := o.wait(ctx)
	if err == nil {
		return nil
	}
	src := o.run.Head.Source
	if errors.Is(err, store.ErrEquivocation) {
		err = r.m.blame("equivocation", err)
		if ev := (evidence{r}); ev.unproven(src, o.run.Head.Seq) {
			err = errors.Join(err, ev.prove(ctx, o.run))
		}
	}
	return fmt.Errorf("store run of %s: %w", src, err)
}

// checkClock refuses events from the future. The last one has the highest
// clock.
func (r *Replicator) checkClock(ru *wire.Run) error {
	last := ru.Events[len(ru.Events)-1]
	ahead, refused := stamps.Ahead(last.HLC.Time(), r.o.Wall())
	if refused {
		if last.Source.Node != r.o.Self && r.aheads.note(ru) {
			r.o.OnAhead(stamps.Chain{Source: last.Source, Seq: last.Seq, Ahead: ahead})
		}
		return fmt.Errorf("%w: event %d of %s is %s ahead of this host's clock", wire.ErrPeer, last.Seq, last.Source, ahead.Round(time.Millisecond))
	}
	if ahead > warnAhead && !r.aheadWarned.Swap(true) {
		r.log.Warn().Str("node", string(last.Source.Node)).Float64("ahead_seconds", ahead.Seconds()).
			Msg("events ahead of the local clock; said once")
	}
	return nil
}

// OwnElsewhere looks at a peer's heads of chains that this host wrote. If the
// peer holds more of the current one than the disk does, or something else,
// or a later one, the disk was rolled back: to append here would be to
// equivocate, so a new incarnation begins. It reports whether it did.
func (r *Replicator) OwnElsewhere(ctx context.Context, heads []event.Head) (bool, error) {
	own := r.st.Source()
	inc := own.Inc
	for _, h := range heads {
		if h.Source.Node != own.Node || h.Source.Inc < own.Inc {
			continue
		}
		if h.Source == own {
			if h.Seq <= r.st.Floor(own).Seq {
				continue // dropped long ago: it is in a snapshot that voters signed
			}
			hash, ok, err := r.st.HashAt(own, h.Seq)
			if err != nil {
				return false, err // it may still be here
			}
			if ok && hash == h.Hash {
				continue // a prefix of what is here
			}
		}
		if err := record.VerifyHead(r.o.Cluster, h, r.st.KeyOf(own.Node)); err != nil {
			continue // nobody can make this host drop its chain without its key
		}
		inc = max(inc, h.Source.Inc+1)
	}
	if inc == own.Inc {
		return false, nil
	}
	err := r.o.Writer.Renew(ctx, inc, "other hosts know more of "+own.String()+" than the disk")
	if err != nil && r.st.Source() == own {
		return false, fmt.Errorf("%w: %w", store.ErrRolledBack, err)
	}
	return true, nil
}

// Level makes this log hold all that from holds, before a part of from's own
// chain is acknowledged: at the start of a stream, and with every event that
// speaks of other chains. An acknowledged term_start so stands for its whole
// cut, and a stable one means that a majority holds the cut.
func (r *Replicator) Level(ctx context.Context, from cluster.NodeID) error {
	ctx, cancel := context.WithTimeout(ctx, r.o.IOTimeout)
	defer cancel()
	if _, err := r.pull(ctx, from, 0, r.dial); err != nil && !errors.Is(err, store.ErrEquivocation) {
		return fmt.Errorf("catch up with %s before acknowledging its chain: %w", from, err)
	}
	return nil
}
