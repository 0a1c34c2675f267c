package postgres

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/internal/wait"
)

// Times of the service.
const (
	compareEvery = 10 * time.Second       // table with log
	sinkAfter    = 200 * time.Millisecond // a change of the log
	firstPause   = time.Second            // before the database is tried again
	maxPause     = 30 * time.Second
)

// Log is what the service needs of the event log.
type Log interface {
	// View shows the fold of all durable events.
	View(f func(*state.State))
	// Changed returns a channel that is closed when the fold changes.
	Changed() <-chan struct{}
	// About yields the events about a job, from the oldest that there is.
	About(ctx context.Context, id job.ID) iter.Seq2[event.Event, error]
}

// Options configures a Service. All must be set but what says otherwise.
type Options struct {
	Cluster string // its id
	Self    cluster.NodeID
	// DSNFile holds how to connect, as libpq understands it. It is read again each time.
	DSNFile      string
	Intake, Sink bool
	Chunks       bool // the sink writes the result of each chunk as well
	Log          Log
	// Settle waits until all that this host's log has now would survive its loss.
	Settle     func(ctx context.Context) error
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // may be nil
}

// Submit submits a job of somebody. Its errors are *api.Problem.
type Submit func(ctx context.Context, owner string, r api.SubmitRequest) (api.SubmitResponse, error)

// Service is the holder's side of a database. Its methods may be called from any
// goroutine; nil is no database.
type Service struct {
	o       Options
	log     zerolog.Logger
	metrics *metrics
	ends    ends

	mu   sync.Mutex
	sunk map[job.ID]bool // guarded by mu: ended jobs that the table is known to have
}

// New returns a Service that does nothing until Run runs.
func New(o Options) (*Service, error) {
	s := &Service{o: o, log: o.Logger.With().Str("component", "postgres").Logger(), ends: logEnds{o.Log}, sunk: make(map[job.ID]bool)}
	var err error
	s.metrics, err = newMetrics(o.Registerer)
	return s, err
}

// MayForget says whether the table has the end of a job, or is not to have it.
func (s *Service) MayForget(id job.ID) bool {
	if s == nil || !s.o.Sink {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sunk[id]
}

// Scheduler is what runs while a term is open.
type Scheduler interface {
	Run(ctx context.Context, term cluster.Term) error
	Quiesce(ctx context.Context) error
}

// Beside serves the database while a scheduler runs.
func (s *Service) Beside(sched Scheduler, submit Submit) Scheduler {
	if s == nil {
		return sched
	}
	return both{sched, s, submit}
}

type both struct {
	Scheduler
	s      *Service
	submit Submit
}

// Run implements Scheduler.
func (b both) Run(ctx context.Context, term cluster.Term) error {
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	serving.Go(func() { b.s.run(ctx, term, b.submit) })
	return b.Scheduler.Run(ctx, term)
}

// run serves the database in a term until ctx ends.
func (s *Service) run(ctx context.Context, term cluster.Term, submit Submit) {
	pause := firstPause
	for {
		began := time.Now()
		err := s.serve(ctx, term, submit)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > maxPause {
			pause = firstPause
		}
		s.metrics.failed.Inc()
		s.log.Warn().Err(said(err)).Uint64("term", uint64(term)).Msg("database not served: jobs wait in its table, and ends in the log")
		if wait.For(ctx, pause/2+rand.N(pause/2)) != nil {
			return
		}
		pause = min(2*pause, maxPause)
	}
}

// session is the database while one holder serves it.
type session struct {
	*Service
	db     *db
	term   cluster.Term
	submit Submit
}

// serve serves the database in a term until ctx ends, or something fails.
func (s *Service) serve(ctx context.Context, term cluster.Term, submit Submit) error {
	dsn, err := dsnOf(s.o.DSNFile)
	if err != nil {
		return fmt.Errorf("postgres.dsn_file: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d, err := open(ctx, dsn, s.o.Cluster)
	if err != nil {
		return fmt.Errorf("postgres.dsn_file: %s: %w", s.o.DSNFile, err)
	}
	defer d.close()
	if err := within(ctx, d.migrate); err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	if err := within(ctx, func(ctx context.Context) error { return d.raise(ctx, term, s.o.Self) }); err != nil {
		return fmt.Errorf("raise the fence: %w", err)
	}
	s.mu.Lock()
	clear(s.sunk) // it may be another database now, or an older one
	s.mu.Unlock()
	s.metrics.serving.Set(1)
	defer s.metrics.serving.Set(0)
	s.log.Info().Uint64("term", uint64(term)).Msg("database served")

	heard := make(chan struct{}, 1)
	listening := make(chan error, 1)
	if s.o.Intake {
		var listener sync.WaitGroup
		defer listener.Wait()
		defer cancel()
		listener.Go(func() {
			listening <- d.listen(ctx, func() {
				select {
				case heard <- struct{}{}:
				default:
				}
			})
		})
	}
	return session{s, d, term, submit}.loop(ctx, heard, listening)
}

// loop takes jobs in and puts ends out.
func (s session) loop(ctx context.Context, heard <-chan struct{}, listening <-chan error) error {
	compare := wait.NewTicker(compareEvery)
	defer compare.Stop()
	intake, sink := s.o.Intake, s.o.Sink
	var changed <-chan struct{}
	var soon <-chan time.Time // when a change is to be looked at
	for {
		if intake {
			if err := s.intake(ctx); err != nil {
				return fmt.Errorf("take jobs: %w", err)
			}
		}
		if sink {
			changed = s.ends.changed()
			if err := s.sink(ctx); err != nil {
				return fmt.Errorf("put results: %w", err)
			}
		}
		intake, sink = false, false
		for !intake && !sink {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case err := <-listening:
				return fmt.Errorf("listen: %w", err)
			case <-heard:
				intake = true
			case <-compare.C:
				compare.Next()
				intake, sink = s.o.Intake, s.o.Sink
			case <-changed:
				changed, soon = nil, time.After(sinkAfter)
			case <-soon:
				soon, sink = nil, true
			}
		}
	}
}

// within bounds one question to the database.
func within(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return ask(ctx)
}
