package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/overload"
	"github.com/skein-project/skein/scheduler/stream"
)

// Deadlines of the streams to workers.
const (
	dialTimeout  = 5 * time.Second // beside so many round trips
	dialTrips    = 3
	helloTimeout = 10 * time.Second
	writeTimeout = 10 * time.Second
	// Silence ends a stream: a worker sends a Status every 6 s at least.
	Silence    = 10 * time.Second
	pingEvery  = 30 * time.Second
	firstRetry = 50 * time.Millisecond
	lastRetry  = 3 * time.Second
)

// Metrics are those of all links.
type Metrics struct {
	Open     prometheus.Gauge       // streams
	Ends     *prometheus.CounterVec // of streams, by reason
	Offences prometheus.Counter
	Shed     prometheus.Counter // telemetry
}

// Options says what a link is to.
type Options struct {
	Node cluster.NodeID // the host
	Crew bool           // its outside workers, not its own
	Self cluster.NodeID
	Term cluster.Term
	Dial func(ctx context.Context, to cluster.NodeID) (net.Conn, error)
	// RTT is the round trip to the host, 0: not known. nil: it never is.
	RTT func() time.Duration
	Now func() time.Duration
	// Events is where the link tells what comes.
	Events  chan<- Event
	Metrics *Metrics
	Logger  zerolog.Logger
}

// Event is what a link tells; one field beside Sess and Worker is set.
type Event struct {
	Sess *Session
	Up   bool
	Down error
	Pong time.Duration // since the ping

	Worker  cluster.NodeID // of a crew: which one; "": the host itself
	Result  *stream.Result
	Status  *stream.Status
	Stopped *stream.Stopped
	Holds   *stream.Assigned
	Join    *stream.Join
	Part    *stream.Part
}

// Lane says how urgent it is what a link tells: what the frame is in that brought it.
func (e Event) Lane() overload.Lane {
	switch {
	case e.Up, e.Down != nil:
		return overload.Control
	case e.Pong > 0:
		return overload.Telemetry
	}
	return stream.Frame{Result: e.Result, Status: e.Status, Stopped: e.Stopped, Assigned: e.Holds, Join: e.Join, Part: e.Part}.Lane()
}

// Link keeps one stream open.
type Link struct {
	o    Options
	kick chan struct{}      // capacity 1, full: a kick is pending; try again at once
	stop context.CancelFunc // ends Run
}

// New makes a link that ends with ctx, and the function that runs it.
func New(ctx context.Context, o Options) (l *Link, run func()) {
	ctx, stop := context.WithCancel(ctx)
	if o.RTT == nil {
		o.RTT = func() time.Duration { return 0 }
	}
	o.Logger = o.Logger.With().Str("peer", string(o.Node)).Bool("crew", o.Crew).Logger()
	l = &Link{o: o, kick: make(chan struct{}, 1), stop: stop}
	return l, func() { l.run(ctx) }
}

// Kick has the link try again at once, if it waits to.
func (l *Link) Kick() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// Stop ends the link.
func (l *Link) Stop() { l.stop() }

// run dials again and again until ctx ends.
func (l *Link) run(ctx context.Context) {
	pause := firstRetry
	for ctx.Err() == nil {
		welcomed, err := l.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		l.o.Metrics.Ends.WithLabelValues(EndReason(err)).Inc()
		l.o.Logger.Debug().Err(err).Msg("worker stream ended")
		if welcomed {
			pause = firstRetry
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-l.kick:
		case <-timer.C:
		}
		timer.Stop()
		pause = min(2*pause, lastRetry)
	}
}

// EndReason says in a word why a stream ended.
func EndReason(err error) string {
	switch {
	case errors.Is(err, ErrRefused):
		return "refused"
	case errors.Is(err, ErrSlow):
		return "slow"
	case errors.Is(err, stream.ErrFrame), errors.Is(err, ErrOffence):
		return "protocol"
	case errors.Is(err, io.EOF):
		return "closed"
	}
	return "lost"
}

// connect opens one stream and reads it to its end.
func (l *Link) connect(linkCtx context.Context) (welcomed bool, err error) {
	ctx, end := context.WithCancelCause(linkCtx)
	defer end(nil)
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout+dialTrips*l.o.RTT())
	conn, err := l.o.Dial(dialCtx, l.o.Node)
	cancel()
	if err != nil {
		return false, fmt.Errorf("dial worker %s: %w", l.o.Node, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	s := newSession(&l.o, end)
	in := stream.NewDecoder(conn)
	if l.o.Crew {
		in = stream.NewCrewDecoder(conn)
	}
	asked := l.o.Now()
	if s.Begin, err = l.greet(conn, in); err != nil {
		return false, err
	}
	s.RTT = l.o.Now() - asked
	if !l.tell(ctx, Event{Sess: s, Up: true}) {
		return true, ctx.Err()
	}
	l.o.Metrics.Open.Inc()
	defer l.o.Metrics.Open.Dec()
	wrote := make(chan struct{}) // closed when the writer ended
	go func() {
		defer close(wrote)
		if err := l.write(ctx, conn, s); err != nil {
			end(err)
		}
	}()
	err = l.read(ctx, conn, in, s)
	end(err)
	<-wrote
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	l.tell(linkCtx, Event{Sess: s, Down: err})
	return true, err
}

// greet says hello and waits for the welcome.
func (l *Link) greet(conn net.Conn, in *stream.Decoder) (stream.Welcome, error) {
	if err := conn.SetDeadline(time.Now().Add(helloTimeout + l.o.RTT())); err != nil {
		return stream.Welcome{}, fmt.Errorf("greet worker %s: %w", l.o.Node, err)
	}
	if err := stream.Write(conn, stream.Frame{Hello: &stream.Hello{Term: l.o.Term, Holder: l.o.Self}}); err != nil {
		return stream.Welcome{}, fmt.Errorf("greet worker %s: %w", l.o.Node, err)
	}
	f, err := in.Read()
	switch {
	case err != nil:
		return stream.Welcome{}, fmt.Errorf("greet worker %s: %w", l.o.Node, err)
	case f.Refused != nil:
		return stream.Welcome{}, l.refused(f.Refused)
	case f.Welcome == nil:
		return stream.Welcome{}, fmt.Errorf("greet worker %s: %w: no welcome", l.o.Node, ErrOffence)
	}
	return *f.Welcome, conn.SetDeadline(time.Time{})
}

func (l *Link) refused(r *stream.Refused) error {
	return fmt.Errorf("worker %s: %w: %s, it knows term %d", l.o.Node, ErrRefused, r.Reason, r.MaxTerm)
}

// tell hands e to the loop. Telemetry is dropped when the loop is behind; for
// all else the link waits.
func (l *Link) tell(ctx context.Context, e Event) bool {
	if e.Lane() == overload.Telemetry {
		select {
		case l.o.Events <- e:
		default:
			l.o.Metrics.Shed.Inc()
		}
		return true
	}
	select {
	case l.o.Events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *Link) read(ctx context.Context, conn net.Conn, in *stream.Decoder, s *Session) error {
	var set time.Time // when the deadline was
	for {
		if now := time.Now(); in.Buffered() == 0 || now.Sub(set) > Silence/10 {
			set = now
			if err := conn.SetReadDeadline(now.Add(Silence)); err != nil {
				return fmt.Errorf("worker %s: %w", l.o.Node, err)
			}
		}
		f, err := in.Read()
		e := Event{Sess: s, Worker: f.Worker, Result: f.Result, Status: f.Status, Stopped: f.Stopped, Holds: f.Assigned, Join: f.Join, Part: f.Part}
		switch {
		case err != nil:
			if errors.Is(err, stream.ErrFrame) {
				l.offence(err.Error())
			}
			return fmt.Errorf("worker %s: %w", l.o.Node, err)
		case f.Result != nil, f.Status != nil, f.Stopped != nil, f.Assigned != nil, f.Join != nil, f.Part != nil:
			if f.Join != nil {
				s.out.grow()
			}
			if !l.tell(ctx, e) {
				return ctx.Err()
			}
		case f.Pong != nil:
			if at := s.pinged.Swap(0); at > 0 && !l.tell(ctx, Event{Sess: s, Pong: max(1, l.o.Now()-time.Duration(at))}) {
				return ctx.Err()
			}
		case f.Refused != nil:
			return l.refused(f.Refused)
		default:
			l.offence("frame out of place")
			return fmt.Errorf("worker %s: %w: frame out of place", l.o.Node, ErrOffence)
		}
	}
}

func (l *Link) offence(reason string) {
	l.o.Metrics.Offences.Inc()
	l.o.Logger.Warn().Str("reason", reason).Msg("worker broke the protocol, stream ended")
}
