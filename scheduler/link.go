package scheduler

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/scheduler/stream"
)

// Deadlines and bounds of the streams to workers.
const (
	dialTimeout  = 5 * time.Second
	helloTimeout = 10 * time.Second
	writeTimeout = 10 * time.Second
	// silence ends a stream: a worker sends a Status every 6 s at least.
	silence    = 10 * time.Second
	pingEvery  = 30 * time.Second
	firstRetry = 50 * time.Millisecond
	lastRetry  = 3 * time.Second
	outFrames  = 256
	// writeAtOnce is how many bytes of waiting frames one write takes.
	writeAtOnce = 32 << 10
)

// session is one open stream, as the loop sees it.
type session struct {
	node  cluster.NodeID
	out   chan stream.Frame // capacity outFrames; never closed
	end   context.CancelCauseFunc
	begin stream.Welcome
	rtt   time.Duration // from the hello to the welcome
	// pinged is when the latest ping went, in nanoseconds of Options.Now; 0: its
	// pong came. The writer sets it, the reader takes it.
	pinged atomic.Int64

	// Owned by the loop: the latest query, when it went, 0: it was answered.
	nonce uint64
	asked time.Duration
}

// send hands f to the writer; a worker that does not read loses its stream.
func (s *session) send(f stream.Frame) {
	select {
	case s.out <- f:
	default:
		s.end(errSlow)
	}
}

var (
	errSlow    = errors.New("slow reader")
	errOffence = errors.New("protocol broken")
	errRefused = errors.New("refused")
)

// linkEvent is what a link tells the loop; exactly one field beside sess is
// set.
type linkEvent struct {
	sess   *session
	up     bool
	down   error
	result *stream.Result
	pong   time.Duration // since the ping
	status *stream.Status

	stopped *stream.Stopped
	holds   *stream.Assigned
}

// link keeps a stream to one worker open.
type link struct {
	node   cluster.NodeID
	term   cluster.Term
	o      *Options
	m      *metrics
	log    zerolog.Logger
	events chan<- linkEvent
	kick   chan struct{}      // capacity 1, full: a kick is pending; try again at once
	stop   context.CancelFunc // ends run

	sess *session // owned by the loop; nil: no stream
	zone string   // owned by the loop, as the plan knows it
}

// run dials again and again until ctx ends.
func (l *link) run(ctx context.Context) {
	pause := firstRetry
	for ctx.Err() == nil {
		welcomed, err := l.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		l.m.streams.WithLabelValues(endReason(err)).Inc()
		l.log.Debug().Err(err).Msg("worker stream ended")
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

func endReason(err error) string {
	switch {
	case errors.Is(err, errRefused):
		return "refused"
	case errors.Is(err, errSlow):
		return "slow"
	case errors.Is(err, stream.ErrFrame), errors.Is(err, errOffence):
		return "protocol"
	case errors.Is(err, io.EOF):
		return "closed"
	}
	return "lost"
}

// connect opens one stream and reads it to its end.
func (l *link) connect(linkCtx context.Context) (welcomed bool, err error) {
	ctx, end := context.WithCancelCause(linkCtx)
	defer end(nil)
	dialCtx, cancel := context.WithTimeout(ctx, dialTimeout)
	conn, err := l.o.Dial(dialCtx, l.node)
	cancel()
	if err != nil {
		return false, fmt.Errorf("dial worker %s: %w", l.node, err)
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	s := &session{node: l.node, out: make(chan stream.Frame, outFrames), end: end}
	in := stream.NewDecoder(conn)
	asked := l.o.Now()
	if s.begin, err = l.greet(conn, in); err != nil {
		return false, err
	}
	s.rtt = l.o.Now() - asked
	if !l.tell(ctx, linkEvent{sess: s, up: true}) {
		return true, ctx.Err()
	}
	l.m.links.Inc()
	defer l.m.links.Dec()
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
	l.tell(linkCtx, linkEvent{sess: s, down: err})
	return true, err
}

// greet says hello and waits for the welcome.
func (l *link) greet(conn net.Conn, in *stream.Decoder) (stream.Welcome, error) {
	if err := conn.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return stream.Welcome{}, fmt.Errorf("greet worker %s: %w", l.node, err)
	}
	if err := stream.Write(conn, stream.Frame{Hello: &stream.Hello{Term: l.term, Holder: l.o.Self}}); err != nil {
		return stream.Welcome{}, fmt.Errorf("greet worker %s: %w", l.node, err)
	}
	f, err := in.Read()
	switch {
	case err != nil:
		return stream.Welcome{}, fmt.Errorf("greet worker %s: %w", l.node, err)
	case f.Refused != nil:
		return stream.Welcome{}, fmt.Errorf("greet worker %s: %w: %s, it knows term %d", l.node, errRefused, f.Refused.Reason, f.Refused.MaxTerm)
	case f.Welcome == nil:
		return stream.Welcome{}, fmt.Errorf("greet worker %s: %w: no welcome", l.node, errOffence)
	}
	return *f.Welcome, conn.SetDeadline(time.Time{})
}

// tell hands e to the loop. Telemetry is dropped when the loop is behind; for
// all else the link waits.
func (l *link) tell(ctx context.Context, e linkEvent) bool {
	if e.lane() == laneTelemetry {
		select {
		case l.events <- e:
		default:
			l.m.shed.Inc()
		}
		return true
	}
	select {
	case l.events <- e:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *link) read(ctx context.Context, conn net.Conn, in *stream.Decoder, s *session) error {
	var set time.Time // when the deadline was
	for {
		if now := time.Now(); in.Buffered() == 0 || now.Sub(set) > silence/10 {
			set = now
			if err := conn.SetReadDeadline(now.Add(silence)); err != nil {
				return fmt.Errorf("worker %s: %w", l.node, err)
			}
		}
		f, err := in.Read()
		switch {
		case err != nil:
			if errors.Is(err, stream.ErrFrame) {
				l.offence(err.Error())
			}
			return fmt.Errorf("worker %s: %w", l.node, err)
		case f.Result != nil:
			if !l.tell(ctx, linkEvent{sess: s, result: f.Result}) {
				return ctx.Err()
			}
		case f.Status != nil:
			if !l.tell(ctx, linkEvent{sess: s, status: f.Status}) {
				return ctx.Err()
			}
		case f.Pong != nil:
			if at := s.pinged.Swap(0); at > 0 && !l.tell(ctx, linkEvent{sess: s, pong: max(1, l.o.Now()-time.Duration(at))}) {
				return ctx.Err()
			}
		case f.Stopped != nil, f.Assigned != nil:
			if !l.tell(ctx, linkEvent{sess: s, stopped: f.Stopped, holds: f.Assigned}) {
				return ctx.Err()
			}
		case f.Refused != nil:
			return fmt.Errorf("worker %s: %w: %s, it knows term %d", l.node, errRefused, f.Refused.Reason, f.Refused.MaxTerm)
		default:
			l.offence("frame out of place")
			return fmt.Errorf("worker %s: %w: frame out of place", l.node, errOffence)
		}
	}
}

func (l *link) offence(reason string) {
	l.m.offences.Inc()
	l.log.Warn().Str("reason", reason).Msg("worker broke the protocol, stream ended")
}

// write sends all frames that wait at once.
func (l *link) write(ctx context.Context, conn net.Conn, s *session) error {
	out := s.out
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	nonce := uint64(0)
	var enc stream.Encoder
	var buf []byte
	for {
		var f stream.Frame
		select {
		case f = <-out:
		case <-ping.C:
			nonce++
			s.pinged.Store(int64(l.o.Now()))
			f = stream.Frame{Ping: &stream.Ping{Term: l.term, Nonce: nonce}}
		case <-ctx.Done():
			return nil
		}
		var err error
		buf, err = enc.Append(buf[:0], f)
		for more := true; more && err == nil && len(buf) < writeAtOnce; {
			select {
			case f = <-out:
				buf, err = enc.Append(buf, f)
			default:
				more = false
			}
		}
		if err == nil {
			err = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		}
		if err == nil {
			_, err = conn.Write(buf)
		}
		if err != nil {
			return fmt.Errorf("worker %s: %w", l.node, err)
		}
	}
}
