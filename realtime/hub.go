package realtime

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/realtime/delta"
)

// Pace of a feed.
const (
	paceLog   = 100 * time.Millisecond // between two readings of the log
	paceMin   = 200 * time.Millisecond // between two looks at a view
	paceMax   = time.Second            // without a change of the log
	paceShare = 20                     // a look may take this part of the time,
	paceSlow  = 2 * time.Second        // but is not put off for longer
	readTime  = 5 * time.Second        // bounds a look
	gaugeMin  = time.Second            // between two tellings of gauges
	gaugeMany = 5 * time.Second        // the same with more than many rows
	many      = 64
)

// Log is the event log as a Hub reads it.
type Log interface {
	// Events yields the known events after at whose clock is not before since and
	// which are about something, of its zero value all, and moves at along. It ends
	// with what is known when it begins.
	Events(ctx context.Context, at api.Cursor, since time.Time, about event.Subject) iter.Seq2[event.Event, error]
	// Oldest is the position after which all events are kept, Cursor the one up
	// to which all that are known have come.
	Oldest() api.Cursor
	Cursor() api.Cursor
	// Changed returns a channel that is closed when the log moved on after the call.
	Changed() <-chan struct{}
}

// Options of a Hub.
type Options struct {
	// Boot tells apart the runs of all daemons: lower-case letters and digits.
	Boot   string
	Source Source
	Log    Log
	Header func() api.Header
	Logger zerolog.Logger
	// Paused says that the host has too much to do: watchers hear less often. nil: never.
	Paused func() bool
	// RingBytes bounds what is kept of the past; 0: delta.RingBytes.
	RingBytes int64
}

// Hub serves watchers. It is safe for concurrent use.
type Hub struct {
	o Options

	mu      sync.Mutex
	differ  *delta.Differ
	feeds   map[string]*feed
	changed chan struct{} // closed with the next frame or gauges

	stopped chan struct{} // closed when the streams must end
	stop    func()
}

// feed reads one topic while it is watched. Hub.mu guards its fields.
type feed struct {
	watches int
	stop    context.CancelFunc
	looked  chan struct{} // closed after the first look
	toldAt  time.Time     // of its gauges
}

// New returns a Hub that nobody watches.
func New(o Options) *Hub {
	if o.Paused == nil {
		o.Paused = func() bool { return false }
	}
	if o.RingBytes == 0 {
		o.RingBytes = delta.RingBytes
	}
	h := &Hub{
		o: o, differ: delta.NewDiffer(o.Boot, o.RingBytes), feeds: map[string]*feed{}, changed: make(chan struct{}), stopped: make(chan struct{}),
	}
	h.stop = sync.OnceFunc(func() { close(h.stopped) })
	return h
}

// ErrStopped ends every stream when the Hub is stopped.
var ErrStopped = errors.New("the daemon stops")

// Stop ends all streams.
func (h *Hub) Stop() { h.stop() }

// maxSingle bounds the topics of one job, run or host each that are read at once, for all
// watches: each costs a look of its own.
const maxSingle = 256

// enter begins to read the topics that nobody has watched, and returns what is
// closed once each of them was read. An error says that they would be too many, and
// nothing has begun.
func (h *Hub) enter(list []string) ([]<-chan struct{}, error) {
	tail := h.o.Log.Cursor().Clone()
	h.mu.Lock()
	defer h.mu.Unlock()
	singles, more := 0, false
	for topic := range h.feeds {
		if single(topic) {
			singles++
		}
	}
	for _, topic := range list {
		if h.feeds[topic] == nil && single(topic) {
			singles++
			more = true
		}
	}
	if more && singles > maxSingle {
		p := api.Errorf(api.CodeOverloaded, "%d topics of one job, run or host each are watched at most", maxSingle)
		p.RetryAfterSeconds = new(10.0)
		return nil, p
	}
	var looked []<-chan struct{}
	for _, topic := range list {
		f := h.feeds[topic]
		if f == nil {
			ctx, stop := context.WithCancel(context.Background())
			f = &feed{stop: stop, looked: make(chan struct{})}
			h.feeds[topic] = f
			if topic == TopicEvents {
				close(f.looked)
				go h.follow(ctx, tail)
			} else {
				go h.read(ctx, topic, f)
			}
		}
		f.watches++
		looked = append(looked, f.looked)
	}
	return looked, nil
}

// leave ends what enter began.
func (h *Hub) leave(list []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, topic := range list {
		f := h.feeds[topic]
		if f.watches--; f.watches > 0 {
			continue
		}
		f.stop()
		delete(h.feeds, topic)
		if single(topic) {
			h.differ.Forget(topic)
		}
	}
}

// read looks at a view until ctx ends.
func (h *Hub) read(ctx context.Context, topic string, f *feed) {
	r := readerOf(h.o.Source, topic)
	first := true
	for {
		changed := h.o.Log.Changed() // before the look, so that nothing is missed
		began := time.Now()
		look, cancel := context.WithTimeout(ctx, readTime)
		rows, err := r.rows(look)
		cancel()
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			h.o.Logger.Debug().Err(err).Str("topic", topic).Msg("topic cannot be read, watchers keep what they have")
		}
		h.take(topic, f, r.cols, rows, err)
		if first {
			close(f.looked)
			first = false
		}
		if err := pause(ctx, changed, min(max(h.least(paceMin), paceShare*time.Since(began)), paceSlow), paceMax); err != nil {
			return
		}
	}
}

// least is the least time between two looks, pace unless the host has too much to do.
func (h *Hub) least(pace time.Duration) time.Duration {
	if h.o.Paused() {
		return paceMax
	}
	return pace
}

// take notes what a look has brought.
func (h *Hub) take(topic string, f *feed, cols delta.Columns, rows []delta.Row, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err != nil || h.feeds[topic] != f {
		return
	}
	changed, err := h.differ.Update(topic, cols, rows)
	if err != nil {
		h.o.Logger.Warn().Err(err).Str("topic", topic).Msg("row cannot be encoded")
		return
	}
	every := gaugeMin
	if len(rows) > many {
		every = gaugeMany
	}
	if now := time.Now(); now.Sub(f.toldAt) >= every && h.differ.Tell(topic) {
		f.toldAt, changed = now, true
	}
	if changed {
		h.wakeLocked()
	}
}

// wakeLocked has every Watch look.
func (h *Hub) wakeLocked() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// follow puts the log after at into the ring until ctx ends.
func (h *Hub) follow(ctx context.Context, at api.Cursor) {
	for {
		changed := h.o.Log.Changed() // before the look, so that nothing is missed
		if err := h.batches(ctx, at); err != nil && ctx.Err() == nil {
			h.o.Logger.Debug().Err(err).Msg("log cannot be followed, going on at its end")
			at = h.o.Log.Cursor().Clone()
			h.put(&delta.Frame{Topic: TopicEvents, Event: delta.Log}) // each Watch reads it itself
		}
		if err := pause(ctx, changed, h.least(paceLog), paceMax); err != nil {
			return
		}
	}
}

// mostAtOnce bounds the frames that are put into the ring together: readers wake
// once for all of them.
const mostAtOnce = 32

// batches puts the events after at into the ring.
func (h *Hub) batches(ctx context.Context, at api.Cursor) error {
	var b batch
	var list []*delta.Frame
	before := at.Clone()
	encode := func() error {
		if len(b.events) == 0 {
			return nil
		}
		f, err := delta.NewLog(TopicEvents, b.events, at)
		if err != nil {
			return err
		}
		f.Follows = advance(before, b.events) == len(b.events)
		before = f.At.Clone()
		b, list = batch{}, append(list, f)
		return nil
	}
	for e, err := range h.o.Log.Events(ctx, at, time.Time{}, event.Subject{}) {
		if err != nil {
			return err
		}
		if !b.add(e) {
			continue
		}
		if err := encode(); err != nil {
			return err
		}
		if len(list) == mostAtOnce {
			h.put(list...)
			list = nil
		}
	}
	err := encode()
	if err == nil && len(list) > 0 {
		h.put(list...)
	}
	return err
}

// advance moves at along over events, up to the first one that does not follow, and
// returns how many of them are new.
func advance(at api.Cursor, events []event.Event) (fresh int) {
	for _, e := range events {
		switch have := at[e.Source]; {
		case e.Seq > have+1:
			return -1
		case e.Seq == have+1:
			at[e.Source] = e.Seq
			fresh++
		}
	}
	return fresh
}

func (h *Hub) put(list ...*delta.Frame) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range list {
		h.differ.Append(f)
	}
	h.wakeLocked()
}

// batch gathers events for one frame.
type batch struct {
	events []event.Event
	bytes  int
}

// add reports whether the frame is full.
func (b *batch) add(e event.Event) bool {
	const overhead = 300
	b.events, b.bytes = append(b.events, e), b.bytes+len(e.Body)+overhead
	return len(b.events) == delta.LogEvents || b.bytes >= delta.LogBytes
}

// pause returns after changed is closed, but not before least and not after most.
func pause(ctx context.Context, changed <-chan struct{}, least, most time.Duration) error {
	began := time.Now()
	timer := time.NewTimer(max(least, most))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		case <-changed:
			rest := least - time.Since(began)
			if rest <= 0 {
				return nil
			}
			changed = nil
			timer.Reset(rest)
		}
	}
}
