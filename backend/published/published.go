package published

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/internal/wait"
)

const (
	// every is how often the log is read at most, back how far at the start: a descriptor
	// is good for three hours.
	every = 5 * time.Second
	back  = 3 * time.Hour
	// renewal is when a publisher that does not tell makes the next descriptor, within some
	// minutes. None plans further ahead than maxRenewal.
	renewal    = time.Hour
	maxRenewal = 24 * time.Hour
)

// Log is the event log.
type Log interface {
	Oldest() event.Cursor
	Heads() []event.Head
	Changed() <-chan struct{}
	After(ctx context.Context, at event.Cursor, f store.Filter) iter.Seq2[event.Event, error]
}

// Options are what a Published is made of. All must be set.
type Options struct {
	Log Log
	// Served are the addresses that the cluster serves now.
	Served func() []string
}

// outcome is what was written of one address.
type outcome struct {
	done         time.Time // zero: never
	next         time.Time // when the next one is due
	by           cluster.NodeID
	failing      time.Time // the first failure since; zero: none
	stored, asks int
	reason       string
}

// Published is what is known of all addresses.
type Published struct {
	o Options

	mu    sync.Mutex
	known map[string]outcome

	at event.Cursor // only of Run
}

// New returns a Published that knows nothing yet.
func New(o Options) *Published { return &Published{o: o, known: map[string]outcome{}} }

// Run reads the log when it has grown, until ctx ends. Which addresses are served is
// there as well.
func (p *Published) Run(ctx context.Context) error {
	for {
		changed := p.o.Log.Changed() // before the look, so that nothing is missed
		if len(p.o.Served()) > 0 {
			p.read(ctx, time.Now())
		}
		if wait.For(ctx, every) != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// read takes what was written since the last time. What cannot be read now is read
// the next time, or is no longer kept.
func (p *Published) read(ctx context.Context, now time.Time) {
	f := store.Filter{Kinds: []string{string(event.KindPublishDone), string(event.KindPublishFailed)}}
	at, end := p.at, event.Cursor{}
	if at == nil {
		at, f.Since = p.o.Log.Oldest(), now.Add(-back)
	}
	for _, h := range p.o.Log.Heads() {
		end[h.Source] = h.Seq
	}
	for e, err := range p.o.Log.After(ctx, at, f) {
		if err != nil {
			if _, gone := errors.AsType[*store.CompactedError](err); gone {
				p.at = nil
			}
			return
		}
		p.take(e)
	}
	if ctx.Err() == nil {
		p.at = end // what came meanwhile is taken again: that changes nothing
	}
}

// take adds what one event says.
func (p *Published) take(e event.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Kind {
	case event.KindPublishDone:
		var b event.PublishDone
		if json.Unmarshal(e.Body, &b) != nil {
			return
		}
		x := p.known[b.Address]
		if at := e.HLC.Time(); at.After(x.done) {
			x.done, x.by, x.next = at, e.Source.Node, at.Add(renewal)
			if told := time.Unix(b.NextAt, 0); told.After(at) && told.Before(at.Add(maxRenewal)) {
				x.next = told
			}
			if !x.failing.After(at) {
				x.failing, x.reason = time.Time{}, ""
			}
			p.known[b.Address] = x
		}
	case event.KindPublishFailed:
		var b event.PublishFailed
		if json.Unmarshal(e.Body, &b) != nil {
			return
		}
		x := p.known[b.Address]
		at := e.HLC.Time()
		if !at.After(x.done) {
			return
		}
		if x.failing.IsZero() {
			x.failing = at
		}
		x.stored, x.asks, x.reason = b.Stored, b.Asked, b.Reason
		p.known[b.Address] = x
	}
}

// Summary is how it goes: of several addresses, with the one that is worst off.
func (p *Published) Summary() api.PublishSummary {
	served := p.o.Served()
	if len(served) == 0 {
		return api.PublishSummary{State: api.PublishOff}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.known, func(address string, _ outcome) bool { return !slices.Contains(served, address) })
	// Failing ones first, for longest; then those never published; then the oldest.
	worst := slices.MinFunc(served, func(a, b string) int {
		x, y := p.known[a], p.known[b]
		switch {
		case x.failing.IsZero() != y.failing.IsZero():
			return map[bool]int{true: 1, false: -1}[x.failing.IsZero()]
		case !x.failing.IsZero():
			return x.failing.Compare(y.failing)
		}
		return x.done.Compare(y.done)
	})
	x := p.known[worst]
	out := api.PublishSummary{State: api.PublishUnknown, By: x.by}
	if !x.done.IsZero() {
		out.State, out.PublishedAt, out.NextAt = api.PublishOK, new(x.done.UTC()), new(x.next.UTC())
	}
	if !x.failing.IsZero() {
		out.State, out.NextAt, out.FailingSince = api.PublishFailing, nil, new(x.failing.UTC())
		out.Stored, out.Asked, out.Reason = x.stored, x.asks, x.reason
	}
	return out
}
