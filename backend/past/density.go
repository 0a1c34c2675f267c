package past

import (
	"context"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/store"
)

// Density implements status/past.Log. It looks for the borders of the spans in each
// chain, and reads nothing of what is between two that are at the same event.
func (p *Past) Density(ctx context.Context, from, to time.Time, spans int) (api.LogDensity, error) {
	heads := p.log.Heads()
	if from.IsZero() {
		from = to
		for e, err := range p.log.After(ctx, p.log.Oldest(), store.Filter{}) {
			if err != nil {
				return api.LogDensity{}, problem(err)
			}
			from = e.HLC.Time()
			break
		}
	}
	if !from.Before(to) {
		return api.LogDensity{}, api.Errorf(api.CodeInvalidRequest, "from %s to %s: nothing is between them", from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339))
	}
	out := api.LogDensity{From: from.UTC(), To: to.UTC(), Events: make([]uint64, spans)}
	c := counter{ctx: ctx, log: p.log, from: from, span: to.Sub(from) / time.Duration(spans), to: to, out: out.Events}
	for _, h := range heads {
		if err := c.chain(h); err != nil {
			return api.LogDensity{}, problem(err)
		}
	}
	return out, nil
}

// counter counts the events of each span of time.
type counter struct {
	ctx  context.Context
	log  Log
	from time.Time
	span time.Duration
	to   time.Time // of the last span
	out  []uint64
}

// chain counts those of the chain that ends with h.
func (c *counter) chain(h event.Head) error {
	first, err := c.before(h, 0)
	if err != nil {
		return err
	}
	last, err := c.before(h, len(c.out))
	if err != nil {
		return err
	}
	return c.count(h, 0, len(c.out), first, last)
}

// count counts the spans from lo to below hi, before which events up to first and
// last of the chain come.
func (c *counter) count(h event.Head, lo, hi int, first, last uint64) error {
	switch {
	case first >= last:
		return nil
	case hi-lo == 1:
		c.out[lo] += last - first
		return nil
	}
	mid := lo + (hi-lo)/2
	at, err := c.before(h, mid)
	if err != nil {
		return err
	}
	if err := c.count(h, lo, mid, first, at); err != nil {
		return err
	}
	return c.count(h, mid, hi, at, last)
}

// before is the last event of a chain that comes before the beginning of span i.
func (c *counter) before(h event.Head, i int) (uint64, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	border := c.to
	if i < len(c.out) {
		border = c.from.Add(time.Duration(i) * c.span)
	}
	return c.log.LastBefore(h, func(at cluster.HLC) bool { return at.Time().Before(border) })
}
