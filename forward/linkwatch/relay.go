package linkwatch

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/realtime/links"
)

// passedTime is how long the relay may say nothing about a host elsewhere before that
// host is asked directly: the relay passes on what it hears at least every quiet, and the
// pauses.
const passedTime = quiet + 3*pace

// Relay says which host of this one's zone asks those elsewhere.
type Relay interface {
	// First is that host; none: this one asks by itself.
	First() (cluster.NodeID, bool)
	// Answered notes whether that host answered.
	Answered(relay cluster.NodeID, err error)
}

// passing is the stream on which a relay passes on what it is told, if there is one.
type passing struct {
	relay cluster.NodeID
	whole []cluster.NodeID
	few   bool
	stop  context.CancelFunc // nil: there is none
	ended chan struct{}
	// until is when hosts are asked of which nothing was passed on yet.
	until time.Duration
}

// over reports whether there is no stream. Where one has ended by itself nobody waits for
// what the next one passes on.
func (p *passing) over() bool {
	select {
	case <-p.ended: // nil where there is none
		p.until = 0
		return true
	default:
		return p.stop == nil
	}
}

// end ends the stream.
func (p *passing) end() {
	if p.stop != nil {
		p.stop()
	}
	*p = passing{until: p.until}
}

// through keeps a stream of the relay open, if there is one, and returns those of the living
// hosts that are to be asked themselves: those of this zone, and the ones of which the relay
// says nothing.
func (h *Hub) through(ctx context.Context, all *sync.WaitGroup, p *passing, v *coord.View, alive []cluster.NodeID, few bool) []cluster.NodeID {
	if h.o.Relay == nil {
		return alive
	}
	over := p.over()
	relay, ok := h.o.Relay.First()
	if !ok {
		p.end()
		return alive
	}
	now := time.Since(h.start)
	elsewhere := elsewhere(v)
	h.mu.Lock()
	whole := slices.Sorted(maps.Keys(h.whole))
	maps.DeleteFunc(h.passed, func(n cluster.NodeID, _ time.Duration) bool { return !elsewhere[n] })
	h.mu.Unlock()
	whole = slices.DeleteFunc(whole, func(n cluster.NodeID) bool { return !elsewhere[n] })
	whole = whole[:min(len(whole), links.MaxWhole)]
	if over || p.relay != relay || p.few != few || few && !slices.Equal(p.whole, whole) {
		p.end()
		one, stop := context.WithCancel(ctx)
		*p = passing{relay: relay, whole: whole, few: few, stop: stop, ended: make(chan struct{}), until: p.until}
		ended := p.ended
		all.Go(func() {
			defer close(ended)
			h.followOthers(one, relay, forward.WatchOthers{Few: few, Whole: whole})
		})
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(alive), func(n cluster.NodeID) bool {
		at, ever := h.passed[n]
		return elsewhere[n] && (now < p.until || ever && now-at < passedTime)
	})
}

// elsewhere are the members that are not in the zone of this host.
func elsewhere(v *coord.View) map[cluster.NodeID]bool {
	self, _ := v.Member(v.Self)
	out := map[cluster.NodeID]bool{}
	for _, m := range v.Members {
		if m.Zone != self.Zone && m.Health != cluster.Left {
			out[m.Node] = true
		}
	}
	return out
}

// followOthers takes in what a relay passes on, until ctx or the stream ends.
func (h *Hub) followOthers(ctx context.Context, relay cluster.NodeID, req forward.WatchOthers) {
	err := forward.FollowHost(ctx, h.o.Router, forward.LinksNear, relay, "", req, func(o links.Others) error {
		if err := o.Check(); err != nil {
			return err
		}
		h.o.Relay.Answered(relay, nil)
		elsewhere := elsewhere(h.o.View())
		for _, t := range o.Told {
			if !elsewhere[t.From] {
				continue // who is here says it itself
			}
			h.mu.Lock()
			h.passed[t.From] = time.Since(h.start)
			h.mu.Unlock()
			h.take(ctx, t.From, t.Report, nil)
		}
		return nil
	})
	if ctx.Err() != nil {
		return
	}
	h.o.Relay.Answered(relay, err)
	h.o.Logger.Debug().Err(err).Str("peer", string(relay)).Msg("half-edges are not passed on by another host")
}

// ServeNear passes on to another host of this zone what those elsewhere tell. It is the
// handler of forward.LinksNear.
func (h *Hub) ServeNear(ctx context.Context, _ forward.Asker, req forward.WatchOthers, send func(links.Others) error) error {
	p := links.Passer{Few: req.Few, Whole: req.Whole}
	for {
		for _, o := range h.pass(&p) {
			if err := send(o); err != nil {
				return err
			}
		}
		if err := wait.For(ctx, pace); err != nil {
			return err
		}
	}
}

// pass has the hosts elsewhere send their halves, and returns what they did since the last
// time.
func (h *Hub) pass(p *links.Passer) []links.Others {
	elsewhere := elsewhere(h.o.View())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wantLocked(time.Now())
	for _, n := range p.Whole {
		if elsewhere[n] {
			h.whole[n] = h.until
		}
	}
	return p.Pass(&h.table, slices.Sorted(maps.Keys(elsewhere)))
}
