package linkwatch

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/mesh"
	"github.com/skein-project/skein/realtime/links"
)

// Times of watching.
const (
	interest = 15 * time.Second // after the last question
	pace     = 2 * time.Second  // between two looks at the own halves
	// quiet is how long nothing may be said where nothing changes: a third of what
	// makes it unknown.
	quiet = links.Fresh / 3
	// retryMin and retryMax bound the pause before a host is asked again.
	retryMin = time.Second
	retryMax = 30 * time.Second
	// dials bounds the hosts that are reached at once.
	dials = 16
)

// Options of a Hub; all but Logger are needed.
type Options struct {
	Self   cluster.NodeID
	View   func() *coord.View
	Peers  func() []mesh.PeerStatus
	Router *forward.Router
	Relay  Relay // nil: each host is asked itself
	Logger zerolog.Logger
}

// Hub shows half-edges. It is safe for concurrent use.
type Hub struct {
	o     Options
	start time.Time
	dials chan struct{} // a token for each host that is being reached
	asked chan struct{} // holds one: somebody has asked

	mu    sync.Mutex
	table links.Table
	// until is when the interest ends, whole the same for hosts whose halves are all
	// wanted.
	until time.Time
	whole map[cluster.NodeID]time.Time
	// passed is when something was last passed on of a host.
	passed map[cluster.NodeID]time.Duration
}

// New returns a Hub that nobody asks.
func New(o Options) *Hub {
	return &Hub{o: o, start: time.Now(), dials: make(chan struct{}, dials), asked: make(chan struct{}, 1), whole: map[cluster.NodeID]time.Time{}, passed: map[cluster.NodeID]time.Duration{}}
}

// Handle registers what this host carries out for others.
func (h *Hub) Handle(r *forward.Router) {
	forward.HandleStream(r, forward.Links, h.Serve)
	forward.HandleStream(r, forward.LinksNear, h.ServeNear)
}

// Serve sends this host's halves to another host. It is the handler of
// forward.Links.
func (h *Hub) Serve(ctx context.Context, _ forward.Asker, req forward.WatchLinks, send func(links.Report) error) error {
	t := links.Teller{Few: req.Few}
	var last time.Time
	for {
		r := t.Tell(h.own(), time.Since(h.start))
		if r.All || len(r.Set)+len(r.Del) > 0 || time.Since(last) >= quiet {
			if err := send(r); err != nil {
				return err
			}
			last = time.Now()
		}
		if err := wait.For(ctx, pace); err != nil {
			return err
		}
	}
}

// own lists what this host sees of the others.
func (h *Hub) own() []links.Peer {
	v := h.o.View()
	device := map[cluster.NodeID]mesh.PeerStatus{}
	for _, p := range h.o.Peers() {
		device[p.Node] = p
	}
	var list []links.Peer
	for _, m := range v.Members {
		if m.Node == h.o.Self || m.Health == cluster.Left {
			continue
		}
		half := links.Half{To: m.Node, State: m.Health, Path: m.Path, RTT: m.RTT.Seconds()}
		p, there := device[m.Node]
		if there && p.Reachable && half.Path == "" {
			half.Path = links.Direct
		}
		if there && !p.LastHandshake.IsZero() {
			half.Handshake = p.LastHandshake.Unix()
		}
		list = append(list, links.Peer{Half: half, Rx: p.Rx, Tx: p.Tx, Counted: there})
	}
	return list
}

// Links returns how the hosts see each other, or how one host and the others do.
// Who has not reported yet is asked from now on.
func (h *Hub) Links(_ context.Context, of cluster.NodeID) (api.Links, error) {
	v := h.o.View()
	members, _ := h.members(v)
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.wantLocked(now); of != "" {
		h.whole[of] = h.until
	}
	edges := h.table.Edges(h.o.Self, of, members, time.Since(h.start))
	out := api.Links{Links: make([]api.Link, 0, len(edges))}
	for _, e := range edges {
		// What a host said before it fell silent is not how it sees the others now.
		if m, ok := v.Member(e.From); ok && e.From != h.o.Self && (m.Health == cluster.Suspect || m.Health == cluster.Dead) {
			e.Half = links.Half{To: e.To, State: links.Unknown}
		}
		l := h.link(e, now)
		// Hosts tell each other health only; that it is a stop, this host knows itself.
		if m, ok := v.Member(e.To); ok && m.Stopped && e.State == cluster.Dead {
			l.Stopped = true
		}
		out.Links = append(out.Links, l)
	}
	return out, nil
}

// wantLocked has the hosts send their halves for a while.
func (h *Hub) wantLocked(now time.Time) {
	h.until = now.Add(interest)
	select {
	case h.asked <- struct{}{}:
	default:
	}
}

func (h *Hub) link(e links.Edge, now time.Time) api.Link {
	l := api.Link{From: e.From, To: e.To, State: e.State, Path: e.Path}
	if e.Ever {
		l.ReportedAt = new(h.start.Add(e.Reported).UTC())
	}
	if e.State == links.Unknown {
		return l
	}
	if e.Handshake > 0 {
		l.HandshakeSeconds = new(max(0, now.Sub(time.Unix(e.Handshake, 0)).Seconds()))
	}
	if e.RTT > 0 {
		l.RTTSeconds = &e.RTT
	}
	l.ReceiveBytesPerSecond, l.TransmitBytesPerSecond = &e.Receive, &e.Transmit
	return l
}

// members lists the members, and those of them that may answer.
func (h *Hub) members(v *coord.View) (all, alive []cluster.NodeID) {
	for _, m := range v.Members {
		if m.Health == cluster.Left {
			continue
		}
		all = append(all, m.Node)
		if m.Health != cluster.Dead && m.Node != h.o.Self {
			alive = append(alive, m.Node)
		}
	}
	return all, alive
}

// asked is a host that sends its halves.
type asked struct {
	few  bool
	stop context.CancelFunc
}

// Run has the hosts send their halves while somebody asks, until ctx ends.
func (h *Hub) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-h.asked:
			h.gather(ctx)
		}
	}
}

// gather has the hosts send their halves while there is interest.
func (h *Hub) gather(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	hosts := map[cluster.NodeID]asked{}
	own, through := links.Teller{}, passing{until: time.Since(h.start) + passedTime}
	for h.wanted() {
		v := h.o.View()
		members, alive := h.members(v)
		many := len(members) > links.Many
		alive = h.through(ctx, &all, &through, v, alive, many)
		want := map[cluster.NodeID]bool{} // few
		for _, node := range alive {
			want[node] = many && !h.inWhole(node)
		}
		for node, a := range hosts {
			if few, still := want[node]; !still || few != a.few {
				a.stop()
				delete(hosts, node)
			}
		}
		for node, few := range want {
			if _, known := hosts[node]; known {
				continue
			}
			one, stop := context.WithCancel(ctx)
			hosts[node] = asked{few: few, stop: stop}
			all.Go(func() { h.follow(one, node, few) })
		}
		if few := many && !h.inWhole(h.o.Self); few != own.Few {
			own = links.Teller{Few: few}
		}
		h.take(ctx, h.o.Self, own.Tell(h.own(), time.Since(h.start)), members)
		if wait.For(ctx, pace) != nil {
			return
		}
	}
}

// wanted reports whether there is interest, and forgets that in single hosts.
func (h *Hub) wanted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for node, until := range h.whole {
		if now.After(until) {
			delete(h.whole, node)
		}
	}
	return now.Before(h.until)
}

func (h *Hub) inWhole(node cluster.NodeID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, in := h.whole[node]
	return in
}

// take takes in a report, unless ctx ended; members, if any, are the only ones that are kept.
func (h *Hub) take(ctx context.Context, from cluster.NodeID, r links.Report, members []cluster.NodeID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil {
		return // another stream tells of that host by now
	}
	h.table.Take(from, r, time.Since(h.start))
	if members != nil {
		h.table.Keep(members)
	}
}

// follow takes in what a host sends, until ctx ends.
func (h *Hub) follow(ctx context.Context, node cluster.NodeID, few bool) {
	retry := retryMin
	for ctx.Err() == nil {
		select {
		case h.dials <- struct{}{}:
		case <-ctx.Done():
			return
		}
		reached := sync.OnceFunc(func() { <-h.dials })
		err := forward.FollowHost(ctx, h.o.Router, forward.Links, node, "", forward.WatchLinks{Few: few}, func(r links.Report) error {
			if err := r.Check(); err != nil {
				return err
			}
			reached()
			retry = retryMin
			h.take(ctx, node, r, nil)
			return nil
		})
		reached()
		if ctx.Err() == nil {
			h.o.Logger.Debug().Err(err).Str("peer", string(node)).Msg("half-edges of another host not read")
		}
		if wait.For(ctx, retry) != nil {
			return
		}
		retry = min(2*retry, retryMax)
	}
}
