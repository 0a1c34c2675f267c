package journal

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog"
	"github.com/skein-project/skein/internal/wait"
)

const (
	// queueSize is how many batches of facts may wait for the log.
	queueSize = 256
	// batchSize bounds the events of one append.
	batchSize = 64
	// recordTime bounds the wait for the log before an operator gets the answer.
	recordTime = 2 * time.Second
	// retryPause lies between attempts to append, warnEvery between warnings
	// about them.
	retryPause = 50 * time.Millisecond
	warnEvery  = time.Second
)

// Options are what a Journal needs.
type Options struct {
	// Append appends to the own chain.
	Append func(ctx context.Context, drafts []event.Draft) ([]event.Event, error)
	// First is called once the own chain may grow, before any queued fact is
	// appended; may be nil. Its error is only logged.
	First  func(ctx context.Context) error
	Logger zerolog.Logger
}

// Journal appends facts to the own chain once it may grow. It is safe for
// concurrent use.
type Journal struct {
	o      Options
	opened chan struct{} // closed when the own chain may grow
	once   sync.Once     // closes opened
	// queue has the batches that wait; when it is full the newest is dropped.
	queue chan []event.Draft
}

// New returns a Journal that only queues until Open is called and Run runs.
func New(o Options) *Journal {
	return &Journal{o: o, opened: make(chan struct{}), queue: make(chan []event.Draft, queueSize)}
}

// Open says that the own chain is complete: it may be appended to from now on.
func (j *Journal) Open() { j.once.Do(func() { close(j.opened) }) }

// Opened is closed by Open.
func (j *Journal) Opened() <-chan struct{} { return j.opened }

// Note queues one fact. It never waits: its callers keep the cluster running.
func (j *Journal) Note(kind event.Kind, body any) {
	j.NoteAll([]event.Draft{{Kind: kind, Body: body}})
}

// NoteAll queues facts that belong together, in this order.
func (j *Journal) NoteAll(drafts []event.Draft) {
	if len(drafts) == 0 {
		return
	}
	select {
	case j.queue <- drafts:
	default:
		j.o.Logger.Error().Str("kind", string(drafts[0].Kind)).Int("events", len(drafts)).Msg("event not logged: queue full")
	}
}

// Append appends a fact that must be in the log before its writer goes on, and
// returns its place in the own chain.
func (j *Journal) Append(ctx context.Context, kind event.Kind, body any) (uint64, error) {
	select {
	case <-j.opened:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	events, err := j.o.Append(ctx, []event.Draft{{Kind: kind, Body: body}})
	if err != nil {
		return 0, err
	}
	return events[len(events)-1].Seq, nil
}

// Record appends what an operator changed. It is in this host's log when Record
// returns; if the log does not accept it in time it is queued.
func (j *Journal) Record(ctx context.Context, kind event.Kind, body any) {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	if _, err := j.Append(ctx, kind, body); err != nil {
		j.o.Logger.Warn().Err(err).Str("kind", string(kind)).Msg("event not logged yet")
		j.Note(kind, body)
	}
}

// Run appends what was queued, until ctx ends.
func (j *Journal) Run(ctx context.Context) error {
	select {
	case <-j.opened:
	case <-ctx.Done():
		return ctx.Err()
	}
	if j.o.First != nil {
		if err := j.o.First(ctx); err != nil && ctx.Err() == nil {
			j.o.Logger.Error().Err(err).Msg("first events of the journal not logged")
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case drafts := <-j.queue:
			for len(drafts) > 0 {
				n := min(len(drafts), batchSize)
				if err := j.flush(ctx, drafts[:n]); err != nil {
					return err
				}
				drafts = drafts[n:]
			}
		}
	}
}

// flush appends drafts, again and again until it succeeds or ctx ends.
func (j *Journal) flush(ctx context.Context, drafts []event.Draft) error {
	kind := drafts[0].Kind
	var warned time.Time
	for {
		_, err := j.o.Append(ctx, drafts)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return err
		case errors.Is(err, eventlog.ErrDiskFull) && !kind.Essential():
			// What is essential must not wait behind it.
			j.o.Logger.Error().Err(err).Str("kind", string(kind)).Msg("event not logged")
			return nil
		}
		if time.Since(warned) > warnEvery {
			warned = time.Now()
			j.o.Logger.Warn().Err(err).Str("kind", string(kind)).Msg("event not logged yet")
		}
		if err := wait.For(ctx, retryPause); err != nil {
			return err
		}
	}
}
