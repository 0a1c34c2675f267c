package eventlog

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
	"github.com/skein-project/skein/eventlog/stamps"
)

// newest are the highest clocks of the events here: of those that this host
// wrote, and of all others. Clocks rise along a chain.
type newest struct {
	self   cluster.NodeID
	own    atomic.Uint64
	others atomic.Uint64
}

// note takes in durable events of one chain.
func (n *newest) note(events []event.Event) {
	if len(events) == 0 {
		return
	}
	last := &events[len(events)-1]
	if last.Source.Node == n.self {
		n.advance(&n.own, last.HLC)
	} else {
		n.advance(&n.others, last.HLC)
	}
}

// advance raises one of the clocks; one goroutine at a time does.
func (*newest) advance(clock *atomic.Uint64, to cluster.HLC) {
	if uint64(to) > clock.Load() {
		clock.Store(uint64(to))
	}
}

// Newest says how far the newest event here is ahead of the wall clock; ok is
// false if there is none.
func (l *Log) Newest() (ahead time.Duration, ok bool) {
	at := cluster.HLC(max(l.newest.own.Load(), l.newest.others.Load()))
	return at.Time().Sub(l.o.Wall()), at > 0
}

// Ahead returns the chains that run ahead of this host's clock: those of other
// hosts of which events were refused, and the own one if the others must refuse
// its last event, and not enough of them hold it all the same.
func (l *Log) Ahead() []stamps.Chain {
	out := l.rep.Ahead()
	own := l.Source()
	at := cluster.HLC(l.newest.own.Load())
	ahead, refused := stamps.Ahead(at.Time(), l.o.Wall())
	if at == 0 || !refused {
		return out
	}
	h := l.Head(own)
	if h.Seq > 0 && l.rep.Stability().Held(h.Seq) {
		return out
	}
	return append(out, stamps.Chain{Source: own, Seq: h.Seq, Ahead: ahead, Own: true})
}

// Tail returns what of this host's own chains runs ahead of its clock, as far as
// stamps.TakeBack must know, and where it would be cut off. It asks the voters
// how much of it they have.
func (l *Log) Tail(ctx context.Context) (t stamps.Tail, cuts []audit.Cut, err error) {
	wall := l.o.Wall()
	t.Ahead, _ = stamps.Ahead(cluster.HLC(l.newest.own.Load()).Time(), wall)
	t.Rest, _ = stamps.Ahead(cluster.HLC(l.newest.others.Load()).Time(), wall)
	for _, h := range l.Heads() {
		if h.Source.Node != l.o.Self {
			continue
		}
		seq, err := l.LastBefore(h, func(c cluster.HLC) bool { _, refused := stamps.Ahead(c.Time(), wall); return !refused })
		if err != nil {
			return t, nil, err
		}
		if seq == h.Seq {
			continue
		}
		err = l.ReadUpTo(h, seq, func(e event.Event) bool {
			t.Authority = t.Authority || e.Term > 0
			return !t.Authority
		})
		if err != nil {
			return t, nil, fmt.Errorf("read what %s has ahead: %w", h.Source, err)
		}
		cuts = append(cuts, audit.Cut{
			Source: h.Source, Kept: seq,
			Reason: fmt.Sprintf("%s was %s ahead of the other hosts' clocks after seq %d", h.Source, t.Ahead.Round(time.Second), seq),
		})
	}
	cfg := l.rep.Voters()
	t.Voters, t.Majority = len(cfg.Voters), cfg.Majority()
	if cfg.Mode == cluster.ModeAvailable {
		t.Majority = 1
	}
	t.Lack = l.lack(ctx, cfg.Voters, cuts)
	return t, cuts, nil
}

// lack asks the voters for the ends of their chains, and counts those that have
// nothing of what cuts would cut off.
func (l *Log) lack(ctx context.Context, voters []cluster.NodeID, cuts []audit.Cut) int {
	var n atomic.Int64
	var wg sync.WaitGroup
	for _, v := range voters {
		if v == l.o.Self {
			continue
		}
		wg.Go(func() {
			heads, err := l.HeadsOf(ctx, v, 0)
			if err != nil {
				l.log.Debug().Str("peer", string(v)).Err(err).Msg("not known how much of the own chain it has")
				return
			}
			for _, h := range heads {
				for _, c := range cuts {
					if h.Source == c.Source && h.Seq > c.Kept {
						return
					}
				}
			}
			n.Add(1)
		})
	}
	wg.Wait()
	return int(n.Load())
}

// TakenBack returns the facts that this host took back with the end of a chain
// that ran ahead, to be written again with the first append to its next one.
func (l *Log) TakenBack() ([]event.Draft, error) {
	var out []event.Draft
	for _, r := range l.Repairing() {
		facts, err := audit.Facts(r, l.Head(r.Source).Seq)
		if err != nil {
			return nil, err
		}
		for _, e := range facts {
			out = append(out, event.Draft{Kind: e.Kind, Body: e.Body})
		}
	}
	return out, nil
}
