package jobwatch

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
)

// Times of watching.
const (
	// paceMin and paceMax bound the time between two frames; rate and time left
	// change even if nothing happens.
	paceMin = 200 * time.Millisecond
	paceMax = time.Second
	// fresh is how long a frame is used.
	fresh = 3 * paceMax
	// retryMin and retryMax bound the pause before the holder is asked again.
	retryMin = time.Second
	retryMax = 30 * time.Second
)

// Options of a Hub; all but Logger are needed.
type Options struct {
	// Job is what this host's own log says of a job.
	Job func(context.Context, job.ID) (api.Job, error)
	// Changed returns a channel that is closed when the log moves on after the
	// call.
	Changed func() <-chan struct{}
	// Elsewhere reports whether another host holds the lease.
	Elsewhere func() bool
	Relay     Relay // nil: the holder is asked
	Router    *forward.Router
	Logger    zerolog.Logger
}

// Relay says which host of this one's zone asks the holder.
type Relay interface {
	// ToHolder is that host; none: this one asks by itself.
	ToHolder() (cluster.NodeID, bool)
	// Answered notes whether that host answered.
	Answered(relay cluster.NodeID, err error)
}

// Hub shows jobs. It is safe for concurrent use.
type Hub struct {
	o Options

	mu   sync.Mutex
	jobs map[job.ID]*live
}

// live is what the holder sends about one job. Hub.mu guards the fields that
// change.
type live struct {
	watches int
	latest  *api.Job // nil: nothing yet
	at      time.Time
	changed chan struct{} // closed with the next frame
	stop    context.CancelFunc
	done    chan struct{}
}

// New returns a Hub that nobody watches.
func New(o Options) *Hub { return &Hub{o: o, jobs: map[job.ID]*live{}} }

// Handle registers what this host carries out for others.
func (h *Hub) Handle(r *forward.Router) {
	forward.HandleStream(r, forward.FollowJob, h.Serve)
	forward.HandleStream(r, forward.FollowJobNear, h.ServeNear)
}

// Serve sends snapshots of a job to another host until the job has ended. It
// is the handler of forward.FollowJob.
func (h *Hub) Serve(ctx context.Context, _ forward.Asker, req forward.JobName, send func(api.Job) error) error {
	for {
		changed := h.o.Changed() // before the look, so that nothing is missed
		j, err := h.o.Job(ctx, req.Job)
		if err != nil {
			return err
		}
		if err := send(j); err != nil || j.State.Final() {
			return err
		}
		if err := pause(ctx, changed, nil); err != nil {
			return err
		}
	}
}

// ServeNear sends a host of this one's zone what this one is told of a job, until the job has
// ended. It is the handler of forward.FollowJobNear.
func (h *Hub) ServeNear(ctx context.Context, _ forward.Asker, req forward.JobName, send func(api.Job) error) error {
	w := h.Watch(req.Job)
	defer w.Close()
	for {
		told, changed := w.Changed(), h.o.Changed() // before the look, so that nothing is missed
		j, err := w.Job(ctx)
		if err != nil {
			return err
		}
		if err := send(j); err != nil || j.State.Final() {
			return err
		}
		if err := pause(ctx, changed, told); err != nil {
			return err
		}
	}
}

// pause returns after one of the channels is closed, of which told may be nil, but not before
// paceMin and not after paceMax.
func pause(ctx context.Context, changed, told <-chan struct{}) error {
	most := time.NewTimer(paceMax)
	defer most.Stop()
	if err := wait.For(ctx, paceMin); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-told:
	case <-most.C:
	}
	return nil
}

// Watch is one view of a job.
type Watch struct {
	h    *Hub
	id   job.ID
	live *live
	once sync.Once
}

// Watch begins to watch a job; the caller closes it.
func (h *Hub) Watch(id job.ID) *Watch {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.jobs[id]
	if l == nil {
		ctx, stop := context.WithCancel(context.Background())
		l = &live{changed: make(chan struct{}), stop: stop, done: make(chan struct{})}
		h.jobs[id] = l
		go h.follow(ctx, id, l)
	}
	l.watches++
	return &Watch{h: h, id: id, live: l}
}

// Close ends a Watch.
func (w *Watch) Close() {
	w.once.Do(func() {
		w.h.mu.Lock()
		w.live.watches--
		last := w.live.watches == 0
		if last {
			delete(w.h.jobs, w.id)
		}
		w.h.mu.Unlock()
		if last {
			w.live.stop()
			<-w.live.done
		}
	})
}

// Changed returns a channel that is closed when the holder sent something
// after the call.
func (w *Watch) Changed() <-chan struct{} {
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	return w.live.changed
}

// Job returns the most recent that is known of the job.
func (w *Watch) Job(ctx context.Context) (api.Job, error) {
	own, err := w.h.o.Job(ctx, w.id)
	if err != nil || own.State.Final() {
		return own, err
	}
	w.h.mu.Lock()
	defer w.h.mu.Unlock()
	if far := w.live.latest; far != nil && time.Since(w.live.at) < fresh && !ahead(own, *far) {
		return *far, nil
	}
	return own, nil
}

// ahead reports whether a is more recent than b.
func ahead(a, b api.Job) bool {
	return cmp.Or(
		cmp.Compare(a.Chunks.Accepted, b.Chunks.Accepted),
		cmp.Compare(a.Attempts.Assigned, b.Attempts.Assigned),
		cmp.Compare(a.Attempts.Failed+a.Attempts.Reclaimed, b.Attempts.Failed+b.Attempts.Reclaimed),
	) > 0
}

// follow keeps the latest of what the holder sends of a job, until the job or
// ctx ends.
func (h *Hub) follow(ctx context.Context, id job.ID, l *live) {
	defer close(l.done)
	retry := retryMin
	for {
		var err error
		if h.o.Elsewhere() {
			err = h.ask(ctx, id, func(j api.Job) error {
				retry = retryMin
				h.take(l, j)
				return nil
			})
			if err == nil {
				return // the job has ended, and this host's log will say so
			}
			if ctx.Err() == nil {
				h.o.Logger.Debug().Err(err).Str("job", string(id)).Msg("job not followed at the holder")
			}
		}
		if wait.For(ctx, retry) != nil {
			return
		}
		if err != nil {
			retry = min(2*retry, retryMax)
		}
	}
}

// ask has f called with what the holder sends of a job, by way of another host of this one's
// zone if that asks for all of it.
func (h *Hub) ask(ctx context.Context, id job.ID, f func(api.Job) error) error {
	req := forward.JobName{Job: id}
	if h.o.Relay == nil {
		return forward.FollowHolder(ctx, h.o.Router, forward.FollowJob, "", req, f)
	}
	relay, ok := h.o.Relay.ToHolder()
	if !ok {
		return forward.FollowHolder(ctx, h.o.Router, forward.FollowJob, "", req, f)
	}
	err := forward.FollowHost(ctx, h.o.Router, forward.FollowJobNear, relay, "", req, func(j api.Job) error {
		h.o.Relay.Answered(relay, nil)
		return f(j)
	})
	if ctx.Err() == nil && !api.IsCode(err, api.CodeNotFound) { // its log may be behind
		h.o.Relay.Answered(relay, err)
	}
	return err
}

// take keeps one frame. The end of a job is left to this host's log.
func (h *Hub) take(l *live, j api.Job) {
	if j.State.Final() {
		return
	}
	j.Header = api.Header{}
	h.mu.Lock()
	defer h.mu.Unlock()
	l.latest, l.at = &j, time.Now()
	close(l.changed)
	l.changed = make(chan struct{})
}
