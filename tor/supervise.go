package tor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// State is where the tor stands.
type State string

// The states of a Tor.
const (
	StateDown      State = "down"      // not running or not connected, being started
	StateBootstrap State = "bootstrap" // connected, has no circuits yet
	StateReady     State = "ready"     // bootstrapped
	StateFaulty    State = "faulty"    // missing, too old or misconfigured: someone must act
)

// Status is what an operator sees.
type Status struct {
	State     State
	Version   string
	Pid       int // of the own tor; 0: none
	Bootstrap int // percent
	Restarts  int // of the own tor, since Run began
	Since     time.Time
	Err       string // why it is not ready
}

// Tor is skein's tor: the process if it is the own one, and the connection to
// its control port. See the package comment for its goroutines.
type Tor struct {
	o        Options // but for the services, which may change
	log      zerolog.Logger
	metrics  *metrics
	events   *bus
	services *serviceSet
	guardian *guardian
	warnings warningWindow

	current  atomic.Pointer[session]
	statusMu sync.Mutex // serializes changes of status
	status   atomic.Pointer[Status]
}

// New checks the options. Run does the rest.
func New(o Options) (*Tor, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Metrics)
	if err != nil {
		return nil, fmt.Errorf("tor: %w", err)
	}
	t := &Tor{
		o: o, log: o.Log.With().Str("component", "tor").Logger(), metrics: m,
		events: &bus{dropped: m.dropped, subs: map[*Subscription]struct{}{}}, services: &serviceSet{o: o},
	}
	t.guardian = newGuardian(o, t.log)
	t.status.Store(&Status{State: StateDown, Since: time.Now()})
	return t, nil
}

// Status is the present state.
func (t *Tor) Status() Status { return *t.status.Load() }

// Own reports whether the tor is a process of ours.
func (t *Tor) Own() bool { return t.o.Attach == nil }

// Run keeps tor running, or connected to, until the context ends; then it
// stops the own tor. Errors of tor are states, not the end of Run.
func (t *Tor) Run(ctx context.Context) error {
	wait := minBackoff
	for {
		begin := time.Now()
		err := t.once(ctx)
		if ctx.Err() != nil {
			t.set(func(s *Status) { s.State, s.Err, s.Pid = StateDown, "stopped", 0 })
			return nil
		}
		if time.Since(begin) >= steadyTime {
			wait = minBackoff
		}
		state, pause := StateDown, wait
		if errors.Is(err, ErrMissing) || errors.Is(err, ErrTooOld) || errors.Is(err, errConfig) {
			state, pause = StateFaulty, faultBackoff
		}
		pause = time.Duration(float64(pause) * (0.5 + t.o.Jitter()/2))
		t.set(func(s *Status) { s.State, s.Err, s.Pid, s.Bootstrap = state, err.Error(), 0, 0 })
		t.log.Warn().Err(err).Float64("dur_seconds", pause.Seconds()).Msg("tor is down, next attempt follows")
		if t.Own() {
			t.set(func(s *Status) { s.Restarts++ })
			t.metrics.restarts.Inc()
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		wait = min(2*wait, maxBackoff)
	}
}

// set changes the status; only Run's goroutine and the event handler that it
// awaits call it.
func (t *Tor) set(change func(*Status)) {
	t.statusMu.Lock()
	defer t.statusMu.Unlock()
	old := t.status.Load()
	now := *old
	change(&now)
	if now.State != old.State {
		now.Since = time.Now()
	}
	t.status.Store(&now)
	t.metrics.ready.Set(boolean(now.State == StateReady))
	t.metrics.bootstrap.Set(float64(now.Bootstrap))
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// once is the life of one process, or of one connection to an attached tor.
// It never returns nil.
func (t *Tor) once(ctx context.Context) error {
	if !t.Own() {
		return t.attached(ctx, nil)
	}
	p, err := t.startProcess(ctx)
	if err != nil {
		return err
	}
	defer p.stop()
	t.set(func(s *Status) { s.Pid = p.pid })
	return t.attached(ctx, p)
}

// attached connects and stays connected. With an own process it connects anew
// for as long as the process lives and answers.
func (t *Tor) attached(ctx context.Context, p *process) error {
	misses := 0
	for {
		begin := time.Now()
		err := t.connection(ctx, p)
		if time.Since(begin) >= steadyTime {
			misses = 0
		}
		if p == nil || ctx.Err() != nil {
			return err
		}
		if fatal, ok := errors.AsType[*fatalError](err); ok {
			return fatal.err
		}
		// The process lives but does not answer: three times in a row and it is replaced.
		if misses++; misses == 3 {
			return fmt.Errorf("tor lives but its control port fails: %w", err)
		}
		t.log.Warn().Err(err).Msg("connection to tor lost, connecting again")
		t.metrics.reconnects.Inc()
	}
}

// fatalError ends the process as well as the connection.
type fatalError struct{ err error }

func (e *fatalError) Error() string { return e.err.Error() }
func (e *fatalError) Unwrap() error { return e.err }

// connection is the life of one connection.
func (t *Tor) connection(ctx context.Context, p *process) error {
	s, err := t.open(ctx, p)
	if err != nil {
		return err
	}
	t.current.Store(s)
	defer func() {
		t.current.Store(nil)
		s.end(context.Canceled)
		t.events.publish(Disconnected{Err: s.err})
	}()
	t.set(func(st *Status) { st.State, st.Version, st.Err = StateBootstrap, s.version, "" })
	t.events.publish(Connected{Version: s.version})
	return t.watch(ctx, s, p)
}

// open connects, waiting for the socket of a process that just started.
func (t *Tor) open(ctx context.Context, p *process) (*session, error) {
	limit, cancel := context.WithTimeoutCause(ctx, connectTime, ErrDeadline)
	defer cancel()
	for {
		s, err := connect(limit, &t.o, t.event)
		if err == nil {
			return s, nil
		}
		if p == nil || errors.Is(err, ErrTooOld) {
			return nil, err
		}
		select {
		case <-p.ended:
			return nil, &fatalError{p.err()}
		case <-limit.Done():
			return nil, err
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// watch waits for the end of a session and asks now and then whether tor still
// answers and how far its bootstrap is: events of it may be lost.
func (t *Tor) watch(ctx context.Context, s *session, p *process) error {
	var ended <-chan struct{}
	if p != nil {
		ended = p.ended
	}
	for {
		phase, err := s.info(ctx, commandTime, "status/bootstrap-phase")
		if err == nil {
			t.bootstrap(phase)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ended:
			return &fatalError{p.err()}
		case <-s.done:
			// Of a tor that died the connection ends a moment before the process.
			if p != nil {
				select {
				case <-ended:
					return &fatalError{p.err()}
				case <-time.After(time.Second):
				}
			}
			return s.err
		case <-time.After(t.pingTime()):
		}
	}
}

// pingTime is short until tor is ready.
func (t *Tor) pingTime() time.Duration {
	if t.Status().State == StateReady {
		return pingTime
	}
	return time.Second
}

// bootstrap reads the percentage out of a line as NOTICE BOOTSTRAP PROGRESS=45
// TAG=handshake_dir.
func (t *Tor) bootstrap(phase string) {
	_, rest, ok := strings.Cut(phase, "PROGRESS=")
	if !ok {
		return
	}
	digits, _, _ := strings.Cut(rest, " ")
	percent, err := strconv.Atoi(digits)
	if err != nil || percent < 0 || percent > 100 {
		return
	}
	was := t.Status().State
	t.set(func(s *Status) {
		s.Bootstrap = percent
		if percent == 100 {
			s.State, s.Err = StateReady, ""
		}
	})
	if percent == 100 && was != StateReady {
		t.log.Info().Str("version", t.Status().Version).Msg("tor is ready")
	}
}

// event is called by the session for each event, in order, and by the reader
// of the own tor's log.
func (t *Tor) event(e Event) {
	switch e := e.(type) {
	case StatusEvent:
		if e.Action == "BOOTSTRAP" {
			t.bootstrap("PROGRESS=" + e.Args["PROGRESS"])
		}
	case WrongMaster:
		t.metrics.wrongMaster.Inc()
	}
	t.events.publish(e)
}

// session returns the present one.
func (t *Tor) session() (*session, error) {
	s := t.current.Load()
	if s == nil {
		if why := t.Status().Err; why != "" {
			return nil, fmt.Errorf("%w: %s", ErrNotConnected, why)
		}
		return nil, ErrNotConnected
	}
	return s, nil
}

// AwaitReady waits until tor is bootstrapped.
func (t *Tor) AwaitReady(ctx context.Context) error {
	for t.Status().State != StateReady {
		select {
		case <-ctx.Done():
			return fmt.Errorf("await tor, which is %s at %d %%: %w", t.Status().State, t.Status().Bootstrap, context.Cause(ctx))
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}
