package zonewatch

import (
	"context"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/forward"
)

const (
	// relayTime bounds the question to a relay, which may have to ask the holder.
	relayTime = 2 * time.Second
	// freshMin is how long an answer counts in any case, freshMax how long after the question
	// if the log did not move on: a little less than the pauses between two looks of a watch.
	freshMin = 150 * time.Millisecond
	freshMax = 900 * time.Millisecond
)

// Options of a Hub. All must be set.
type Options struct {
	View func() *coord.View
	// Workers asks the holder what it knows of the workers, those of each gateway as one.
	Workers func(context.Context) (api.Workers, error)
	// Changed returns a channel that is closed when the log of this host moved on after the
	// call.
	Changed func() <-chan struct{}
	Router  *forward.Router
}

// Hub knows what the holder says, once for its zone.
type Hub struct {
	*Relays
	o       Options
	workers *told[api.Workers]
	zones   *told[api.Zones]
	counted counted
}

// New returns a Hub that has asked nobody.
func New(o Options) *Hub {
	h := &Hub{Relays: NewRelays(o.View), o: o}
	zones := func(ctx context.Context) (api.Zones, error) {
		ctx, cancel := context.WithTimeout(ctx, relayTime)
		defer cancel()
		return forward.AskHolderOnce(ctx, o.Router, forward.Zones, "", forward.None{})
	}
	h.workers, h.zones = newTold(o, h.Relays, forward.WorkerGroupsNear, o.Workers), newTold(o, h.Relays, forward.ZonesNear, zones)
	return h
}

// Handle registers what this host carries out for others.
func (h *Hub) Handle(r *forward.Router) {
	forward.Handle(r, forward.WorkerGroupsNear, h.workers.serve)
	forward.Handle(r, forward.ZonesNear, h.zones.serve)
	forward.Handle(r, forward.WatchLoadNear, h.serveLoad)
}

// WorkerGroups implements realtime.Source. What it returns is shared and must not be
// changed.
func (h *Hub) WorkerGroups(ctx context.Context) (api.Workers, error) {
	out, err := h.workers.get(ctx)
	out.Header = api.Header{}
	return out, err
}

// Judged is how the zones are as the holder judges it. What it returns is shared and must not
// be changed.
func (h *Hub) Judged(ctx context.Context) (api.Zones, error) { return h.zones.get(ctx) }

// told is one thing that the holder says.
type told[T any] struct {
	o      Options
	relays *Relays
	near   *forward.Op[forward.None, T]
	ask    func(context.Context) (T, error)

	turn chan struct{} // holds one while somebody looks or asks; it guards what follows
	have T
	err  error
	at   time.Time       // of the question
	done time.Time       // of the answer
	from <-chan struct{} // closed: the log moved on since the question; nil: nobody has asked
}

func newTold[T any](o Options, relays *Relays, near *forward.Op[forward.None, T], ask func(context.Context) (T, error)) *told[T] {
	return &told[T]{o: o, relays: relays, near: near, ask: ask, turn: make(chan struct{}, 1)}
}

// serve answers another host of the zone, which waits no longer than it says.
func (t *told[T]) serve(ctx context.Context, _ forward.Asker, _ forward.None) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, relayTime)
	defer cancel()
	return t.get(ctx)
}

// get returns what was said just now, or asks: who comes while somebody asks waits for that
// answer.
func (t *told[T]) get(ctx context.Context) (T, error) {
	select {
	case t.turn <- struct{}{}:
		defer func() { <-t.turn }()
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
	if t.fresh(time.Now()) {
		return t.have, t.err
	}
	at, from := time.Now(), t.o.Changed() // before the question, so that nothing is missed
	have, err := t.fetch(ctx)
	if ctx.Err() != nil {
		return have, err // whoever comes next asks
	}
	t.have, t.err, t.at, t.done, t.from = have, err, at, time.Now(), from
	return have, err
}

// fresh reports whether what is there counts still: for those who waited for the answer in
// any case, for others while the log has not moved on.
func (t *told[T]) fresh(now time.Time) bool {
	switch {
	case t.from == nil:
		return false
	case now.Sub(t.done) < freshMin:
		return true
	}
	select {
	case <-t.from:
		return false
	default:
		return t.err == nil && now.Sub(t.at) < freshMax
	}
}

// fetch asks the host that asks for this zone, if there is one and it answers, else the
// holder.
func (t *told[T]) fetch(ctx context.Context) (T, error) {
	if relay, ok := t.relays.ToHolder(); ok {
		limited, cancel := context.WithTimeout(ctx, relayTime)
		out, err := forward.AskHost(limited, t.o.Router, t.near, relay, "", forward.None{})
		cancel()
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
		if t.relays.Answered(relay, err); err == nil {
			return out, nil
		}
	}
	return t.ask(ctx)
}
