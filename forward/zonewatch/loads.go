package zonewatch

import (
	"context"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/forward"
)

const (
	// countedFor is how long what was counted since a position is told to others who are there:
	// a little longer than the pause between two looks of a watch, so that all who look get to
	// the same next position, and ask from there together.
	countedFor = 1200 * time.Millisecond
	// maxCounted bounds what is remembered so.
	maxCounted = 128
)

// askLoad asks the host that asks for this zone, if there is one and it answers, else the
// holder.
func (h *Hub) askLoad(ctx context.Context, q forward.LoadWatch) (api.LoadLive, error) {
	if relay, ok := h.ToHolder(); ok {
		limited, cancel := context.WithTimeout(ctx, relayTime+time.Duration(q.Wait)*time.Millisecond)
		out, err := forward.AskHost(limited, h.o.Router, forward.WatchLoadNear, relay, "", q)
		cancel()
		switch {
		case ctx.Err() != nil:
			return out, ctx.Err()
		case api.IsCode(err, api.CodeNotFound): // it has answered: there is no such test
			h.Answered(relay, nil)
			return out, err
		}
		if h.Answered(relay, err); err == nil {
			return out, nil
		}
	}
	return forward.AskHolder(ctx, h.o.Router, forward.WatchLoad, "", q)
}

// counted is what was told lately of load tests, for those who ask from the same position.
type counted struct {
	mu  sync.Mutex
	all map[countedSince]*answer
}

type countedSince struct {
	run   event.LoadID
	after string
}

// answer is one that is waited for or was told; what follows done is to be read when that is
// closed.
type answer struct {
	done chan struct{}
	out  api.LoadLive
	err  error
	at   time.Time
}

// old reports whether an answer is none for whoever asks now. One that says nothing new is
// none for long.
func (a *answer) old(after string, now time.Time) bool {
	select {
	case <-a.done:
	default:
		return false // it is waited for
	}
	long := countedFor
	if a.out.Next == after {
		long = freshMin
	}
	return a.err != nil || now.Sub(a.at) >= long
}

// serveLoad answers another host of the zone.
func (h *Hub) serveLoad(ctx context.Context, _ forward.Asker, q forward.LoadWatch) (api.LoadLive, error) {
	return h.WatchLoad(ctx, q)
}

// WatchLoad tells what a load test counted since a position, as the holder says it. Where that
// is in another zone it is what somebody else here was told or waits for, or is asked for once
// for the zone.
func (h *Hub) WatchLoad(ctx context.Context, q forward.LoadWatch) (api.LoadLive, error) {
	if !h.far() {
		return forward.AskHolder(ctx, h.o.Router, forward.WatchLoad, "", q)
	}
	c, key := &h.counted, countedSince{run: q.Run, after: q.After}
	c.mu.Lock()
	a := c.all[key]
	if a == nil || a.old(q.After, time.Now()) {
		a = &answer{done: make(chan struct{})}
		c.put(key, a)
		c.mu.Unlock()
		// Others may wait for it, though who asked first does not any more.
		limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), relayTime+time.Duration(q.Wait)*time.Millisecond)
		defer cancel()
		a.out, a.err = h.askLoad(limited, q)
		a.at = time.Now()
		close(a.done)
		return a.out, a.err
	}
	c.mu.Unlock()
	select {
	case <-a.done:
		return a.out, a.err
	case <-ctx.Done():
		return api.LoadLive{}, ctx.Err()
	}
}

// put remembers an answer. The caller holds mu.
func (c *counted) put(key countedSince, a *answer) {
	now := time.Now()
	for k, x := range c.all {
		if x.old(k.after, now) {
			delete(c.all, k)
		}
	}
	if len(c.all) >= maxCounted {
		clear(c.all)
	}
	if c.all == nil {
		c.all = map[countedSince]*answer{}
	}
	c.all[key] = a
}
