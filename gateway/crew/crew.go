package crew

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/scheduler/stream"
)

// MaxWaiting is how many frames may wait for the holder.
const MaxWaiting = 16384

const (
	maxPushes = 256 // that wait for one worker
	tickEvery = time.Second
)

// Options configures a Crew.
type Options struct {
	Desk desk.Options
	// MinTerm is the highest term that the lease knows; default 0.
	MinTerm func() cluster.Term
	// CheckHolder says why a host does not hold the lease in a term; default: it does.
	CheckHolder func(from cluster.NodeID, term cluster.Term) error
	// Now is a clock that goes on in suspend; Wall the time of the day, default time.Now.
	Now    func() time.Duration
	Wall   func() time.Time
	Logger zerolog.Logger
}

// Crew is the outside workers of this host. Its methods may be called from any goroutine.
type Crew struct {
	o   Options
	log zerolog.Logger

	mu      sync.Mutex // for what follows; held for one step of the desk
	desk    *desk.Desk
	seats   map[cluster.NodeID]*Seat
	term    cluster.Term // the highest that was served
	holder  cluster.NodeID
	sess    *session // nil: no holder
	serving map[cluster.NodeID]int
}

// New returns a Crew that nobody is attached to.
func New(o Options) (*Crew, error) {
	if o.Now == nil {
		return nil, errors.New("crew: no clock")
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.MinTerm == nil {
		o.MinTerm = func() cluster.Term { return 0 }
	}
	if o.CheckHolder == nil {
		o.CheckHolder = func(cluster.NodeID, cluster.Term) error { return nil }
	}
	return &Crew{
		o: o, log: o.Logger.With().Str("component", "crew").Logger(), desk: desk.New(o.Desk),
		seats: make(map[cluster.NodeID]*Seat), serving: make(map[cluster.NodeID]int),
	}, nil
}

// Run lets time pass until ctx ends.
func (c *Crew) Run(ctx context.Context) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
			c.step(func(now time.Duration) { c.desk.Tick(now) })
		}
	}
}

// Stats says how much there is.
func (c *Crew) Stats() desk.Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.desk.Stats()
}

// step lets the desk do something, and sees to it that who waits for that hears of it.
func (c *Crew) step(do func(now time.Duration)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do(c.o.Now())
	for _, p := range c.desk.Pushes() {
		if s := c.seats[p.Worker]; s != nil && s.session == p.Session {
			s.put(p)
		}
	}
	if s := c.sess; s != nil {
		if c.desk.Waiting() > MaxWaiting {
			c.log.Warn().Str("peer", string(s.from)).Int("frames", c.desk.Waiting()).Msg("holder reads too slowly, stream ended")
			c.leave(s)
			return
		}
		s.signal()
	}
}

// Seat is one session of a worker.
type Seat struct {
	c       *Crew
	worker  cluster.NodeID
	session uint64
	ready   chan struct{} // capacity 1, full: pushes wait; never closed
	over    chan struct{} // closed when the session is over; what waits then are its last pushes
	waiting []desk.Push   // guarded by the Crew
	since   time.Duration // when the first of waiting came; guarded by the Crew
}

func (s *Seat) put(p desk.Push) {
	if len(s.waiting) == 0 {
		s.since = s.c.o.Now()
	}
	if len(s.waiting) >= maxPushes {
		s.waiting = append(s.waiting[:0], s.waiting[1:]...)
	}
	s.waiting = append(s.waiting, p)
	select {
	case s.ready <- struct{}{}:
	default:
	}
	if p.Kind == desk.PushGone {
		s.away()
	}
}

// Attach begins a session of a worker.
func (c *Crew) Attach(a desk.Attach) (*Seat, desk.State, error) {
	var st desk.State
	var err error
	var s *Seat
	c.step(func(now time.Duration) {
		before := c.seats[a.Worker]
		if st, err = c.desk.Attach(a, now, c.o.Wall()); err != nil {
			return
		}
		if before != nil { // hears of it on its own session
			for _, p := range c.desk.Pushes() {
				before.put(p)
			}
			before.away()
		}
		s = &Seat{c: c, worker: a.Worker, session: st.Session, ready: make(chan struct{}, 1), over: make(chan struct{})}
		c.seats[a.Worker] = s
	})
	return s, st, err
}

// Seat returns the session of a worker; an error of package desk if it is not this one.
func (c *Crew) Seat(worker cluster.NodeID, session uint64) (*Seat, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch s := c.seats[worker]; {
	case s == nil:
		return nil, desk.ErrUnknown
	case s.session != session:
		return nil, desk.ErrSession
	default:
		return s, nil
	}
}

// Names is desk.Desk.Names.
func (c *Crew) Names(worker cluster.NodeID, h cluster.Hash) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.desk.Names(worker, h)
}

// Session is its number.
func (s *Seat) Session() uint64 { return s.session }

// Ready has a value when pushes wait.
func (s *Seat) Ready() <-chan struct{} { return s.ready }

// Over is closed when the session is over. Then Take returns its last pushes.
func (s *Seat) Over() <-chan struct{} { return s.over }

// Waited is for how long the first of the pushes has waited that Take returns; 0: there is
// none.
func (s *Seat) Waited() time.Duration {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if len(s.waiting) == 0 {
		return 0
	}
	return s.c.o.Now() - s.since
}

// Take returns the pushes that wait, in order.
func (s *Seat) Take() []desk.Push {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	out := s.waiting
	s.waiting = nil
	return out
}

// Beat is desk.Desk.Beat.
func (s *Seat) Beat(b desk.Beat) (seq uint64, err error) {
	s.c.step(func(now time.Duration) { seq, err = s.c.desk.Beat(s.worker, s.session, b, now) })
	return seq, err
}

// Complete is desk.Desk.Complete.
func (s *Seat) Complete(results []stream.Result) (out []desk.Verdict, err error) {
	s.c.step(func(now time.Duration) { out, err = s.c.desk.Complete(s.worker, s.session, results, now) })
	return out, err
}

// Assigned is desk.Desk.Assigned.
func (s *Seat) Assigned() (st desk.State, err error) {
	s.c.step(func(now time.Duration) { st, err = s.c.desk.Assigned(s.worker, s.session, now) })
	return st, err
}

// Bye is desk.Desk.Bye.
func (s *Seat) Bye() (err error) {
	s.c.step(func(now time.Duration) { err = s.c.desk.Bye(s.worker, s.session, now); s.away() })
	return err
}

// Lose is desk.Desk.Lose.
func (s *Seat) Lose() (err error) {
	s.c.step(func(now time.Duration) { err = s.c.desk.Lose(s.worker, s.session, now); s.away() })
	return err
}

// away ends the session once. The caller has mu.
func (s *Seat) away() {
	if s.c.seats[s.worker] == s {
		delete(s.c.seats, s.worker)
		close(s.over)
	}
}

// known is the lowest term that is served.
func (c *Crew) known() cluster.Term { return max(c.term, c.o.MinTerm()) }
