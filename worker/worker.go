package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/ends"
	"github.com/skein-project/skein/scheduler/stream"
	"github.com/skein-project/skein/worker/executor"
	"github.com/skein-project/skein/worker/outbox"
	"github.com/skein-project/skein/worker/runner"
)

// killTimeout bounds the end of attempts that were cancelled by a stop.
const killTimeout = 5 * time.Second

// Worker runs the chunks that a holder assigns to this host.
type Worker struct {
	opts Options
	log  zerolog.Logger
	m    *metrics

	attach   chan attachment // capacity 0: the loop answers each at once
	inbox    chan inbound    // capacity 0: a holder is read no faster than its frames are handled
	detach   chan *session   // capacity 0
	drains   chan bool       // capacity 0: an operator's wish
	asks     chan struct{}   // capacity 1: an attempt wants more time, or saved how far it is; full: the loop looks at all of them anyway
	finished chan finished   // capacity Slots: an attempt never waits to report
	done     chan struct{}   // closed when Run returned
	started  atomic.Bool     // Run was called
	view     atomic.Pointer[View]

	serving serving

	logs keptLogs // of failures
	last last
}

// View is what a Worker is doing. It is never modified.
type View struct {
	Slots     int
	Running   []job.Attempt
	Queued    int
	Kept      int // results not yet accepted
	KeptBytes int
	Holder    cluster.NodeID // whose stream is open; empty: none
	Term      cluster.Term   // highest term served
	Draining  bool           // by an operator's wish: what runs goes on, nothing begins
	Stopping  bool
}

// New checks o and makes a Worker. It starts nothing.
func New(o Options) (*Worker, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	w := &Worker{
		opts:     o,
		log:      o.Logger.With().Str("component", "worker").Logger(),
		m:        m,
		attach:   make(chan attachment),
		inbox:    make(chan inbound),
		detach:   make(chan *session),
		drains:   make(chan bool),
		asks:     make(chan struct{}, 1),
		serving:  serving{open: map[cluster.NodeID]int{}},
		finished: make(chan finished, o.Slots),
		done:     make(chan struct{}),
		last:     last{soon: make(chan struct{})},
	}
	drained, err := w.wasDrained()
	if err != nil {
		return nil, err
	}
	w.view.Store(&View{Slots: o.Slots, Draining: drained})
	return w, nil
}

// View returns what the worker is doing.
func (w *Worker) View() View { return *w.view.Load() }

// Run serves until ctx ends. Then it takes nothing new and gives back what is
// queued, waits up to DrainTimeout for running chunks, gives the rest back,
// saves the outbox and returns nil. It may be called once.
func (w *Worker) Run(ctx context.Context) error {
	if w.started.Swap(true) {
		panic("worker: Run called twice")
	}
	defer close(w.done)
	l := &loop{
		Worker:  w,
		running: map[job.Attempt]*run{},
		ending:  map[*run]bool{},
		floors:  stream.Floors{},
		outbox:  outbox.New(w.opts.OutboxBytes, w.opts.KeepFor),
		drained: w.View().Draining, wishes: wishes{accept: w.opts.Accept(), may: make(map[string]bool)},
		heard: w.opts.Now(),
	}
	for i := range w.opts.Slots {
		l.free = append(l.free, w.opts.Slots-1-i)
	}
	if w.opts.OutboxFile != "" {
		skipped, err := l.outbox.Open(w.opts.OutboxFile, time.Now())
		if err != nil || skipped > 0 {
			w.log.Warn().Err(err).Int("damaged", skipped).Str("path", w.opts.OutboxFile).
				Msg("results kept by the worker are damaged: their chunks run again")
		}
	}

	// The executors outlive ctx by the drain.
	execCtx, endExec := context.WithCancel(context.WithoutCancel(ctx))
	defer endExec()
	ended := make(chan error, len(w.opts.Executors)) // one report per executor
	for name, e := range w.opts.Executors {
		go func() {
			if err := e.Run(execCtx); err != nil && execCtx.Err() == nil {
				ended <- fmt.Errorf("executor %s: %w", name, err)
				return
			}
			ended <- nil
		}()
	}
	reported, err := l.serve(ctx, execCtx, ended)
	endExec()
	late := time.After(killTimeout)
	for range len(w.opts.Executors) - reported {
		select {
		case e := <-ended:
			err = errors.Join(err, e)
		case <-late:
			return errors.Join(err, errors.New("worker: an executor did not end"))
		}
	}
	if saveErr := l.outbox.Close(); saveErr != nil && err == nil {
		err = saveErr
	}
	return err
}

// loop is the state that Run owns.
type loop struct {
	*Worker
	ctx context.Context // parent of every attempt; ends after the drain

	term   cluster.Term   // highest served
	holder cluster.NodeID // who opened term
	sess   *session       // the one open stream; nil: none

	queue    []queuedTask
	running  map[job.Attempt]*run
	ending   map[*run]bool // cancelled attempts that have not ended
	free     []int         // slots
	floors   stream.Floors
	outbox   *outbox.Outbox
	drained  bool          // an operator wants nothing to begin
	wishes                 // whose jobs are run
	stopping bool          // Run's context has ended
	heard    time.Duration // last frame of a holder
}

// queuedTask waits for a slot.
type queuedTask struct {
	executor.Task
	owner string        // whose job
	at    time.Duration // since when
}

// run is one running attempt.
type run struct {
	task   executor.Task
	slot   int
	cancel context.CancelFunc
	orders []*cancelOrder // that wait for its end
	began  time.Duration

	done atomic.Uint64 // iterations, as the work reports them
	rose atomic.Int64  // when done rose last, in nanoseconds; 0: never

	ask   atomic.Pointer[stream.Ask]     // the latest request for more time; nil: none
	saved atomic.Pointer[job.Checkpoint] // the latest; nil: none
}

// wants takes in a request of the work for more time, and says whether the holder is to
// hear of it: of very many it is the first ones.
func (r *run) wants(a runner.Ask) bool {
	for {
		old, next := r.ask.Load(), stream.Ask{Number: 1, Seconds: a.Seconds, Reason: a.Reason}
		if old != nil {
			next.Number = old.Number + 1
		}
		if next.Number > ends.MaxAsks {
			return false
		}
		if r.ask.CompareAndSwap(old, &next) {
			return true
		}
	}
}

// progress takes a report of the work. It never falls, and a report beyond the
// chunk counts as its end.
func (r *run) progress(done, iterations uint64, now time.Duration) (first bool) {
	done = min(done, iterations)
	for {
		old := r.done.Load()
		if done <= old {
			return false
		}
		if r.done.CompareAndSwap(old, done) {
			return r.rose.Swap(int64(now)) == 0
		}
	}
}

type finished struct {
	run     *run
	result  job.ChunkResult
	err     error
	seconds float64
	log     cluster.Hash // of a failure: the artefact with what it said; zero: none
}

// serve runs the loop until ctx has ended and the drain is over, or an
// executor ends. It returns how many executors have reported their end.
func (l *loop) serve(ctx, execCtx context.Context, ended <-chan error) (reported int, err error) {
	runCtx, endRuns := context.WithCancel(execCtx)
	defer endRuns()
	l.ctx = runCtx
	status := time.NewTicker(l.opts.StatusEvery)
	defer status.Stop()
	stop := ctx.Done()
	var overtime <-chan time.Time
	defer func() { l.closeSession("worker stops") }()
	for {
		l.start()
		l.publish()
		if l.stopping && len(l.running)+len(l.ending) == 0 && !l.sess.pending(l.outbox) {
			return reported, err
		}
		var out chan<- stream.Frame // nil: nothing to send
		var next stream.Frame
		if frame, ok := l.sess.next(l.outbox); ok {
			out, next = l.sess.out, frame
		}
		select {
		case <-stop:
			stop = nil
			l.stopWork()
			overtime = time.After(l.opts.DrainTimeout)
		case <-overtime:
			if left := len(l.running) + len(l.ending); l.ctx.Err() != nil {
				if left == 0 { // only the holder does not read
					return reported, err
				}
				return reported, errors.Join(err, fmt.Errorf("worker: %d attempts did not end", left))
			}
			endRuns()
			overtime = time.After(killTimeout)
		case e := <-ended:
			reported++
			if e == nil {
				e = errors.New("worker: an executor ended early")
			}
			err = errors.Join(err, e)
			stop = nil
			l.stopWork()
			endRuns()
			overtime = time.After(killTimeout)
		case a := <-l.attach:
			a.answer <- l.onAttach(a.sess)
		case s := <-l.detach:
			if s == l.sess {
				l.sess = nil
				l.log.Info().Str("peer", string(s.from)).Uint64("term", uint64(s.term)).Msg("holder's stream ended")
			}
		case in := <-l.inbox:
			if in.sess == l.sess {
				l.onFrame(in.frame)
			}
		case on := <-l.drains:
			l.drain(on)
		case f := <-l.finished:
			l.onFinished(f)
		case <-status.C:
			l.onStatus()
		case <-l.asks: // the deadline may be near
			l.onStatus()
		case out <- next:
			l.sess.sent()
		}
	}
}

// stopWork begins the stop: nothing starts any more.
func (l *loop) stopWork() {
	l.last.begin()
	l.stopping = true
	l.returnQueue()
}

// drain follows an operator's wish.
func (l *loop) drain(on bool) {
	if on == l.drained {
		return
	}
	l.drained = on
	l.log.Info().Bool("draining", on).Int("running", len(l.running)).Int("queued", len(l.queue)).Msg("drain changed")
	l.onStatus() // before the results: the holder gives them to others
	if on {
		l.returnQueue()
	}
}

func (l *loop) returnQueue() {
	for _, t := range l.queue {
		l.handBack(t.Attempt)
	}
	l.queue = nil
}

// start fills free slots from the queue.
func (l *loop) start() {
	for len(l.free) > 0 && len(l.queue) > 0 && !l.outbox.Full() {
		t := l.queue[0].Task
		l.queue = l.queue[1:]
		ctx, cancel := context.WithCancel(l.ctx)
		r := &run{task: t, slot: l.free[len(l.free)-1], cancel: cancel, began: l.opts.Now()}
		l.free = l.free[:len(l.free)-1]
		l.running[t.Attempt] = r
		_, iterations := t.Spec.ChunkRange(t.Attempt.Chunk)
		t.Report = func(done uint64) {
			if now := l.opts.Now(); r.progress(done, iterations, now) {
				l.m.firstProgress.Observe((now - r.began).Seconds())
			}
		}
		t.Ask = func(a runner.Ask) {
			if r.wants(a) {
				l.poke()
			}
		}
		t.Ending = l.last.soon
		t.Save = func(c job.Checkpoint) {
			r.saved.Store(&c)
			l.poke()
		}
		keep := l.hear(&t)
		go func() {
			began := time.Now()
			f := finished{run: r}
			if e, ok := l.opts.Executors[t.Spec.Executor]; ok {
				f.result, f.err = e.Execute(ctx, r.slot, t)
			} else {
				f.err = executor.Infra(fmt.Errorf("this host has no executor %q", t.Spec.Executor))
			}
			f.seconds = time.Since(began).Seconds()
			f.log = keep(f.err, ctx.Err() != nil)
			l.finished <- f
		}()
	}
}

// poke has the holder told soon how attempts are.
func (w *Worker) poke() {
	select {
	case w.asks <- struct{}{}:
	default:
	}
}

// onFinished frees the slot and keeps the result for the holder.
func (l *loop) onFinished(f finished) {
	f.run.cancel()
	l.free = append(l.free, f.run.slot)
	if l.ending[f.run] {
		delete(l.ending, f.run)
		l.m.chunks.WithLabelValues("cancelled").Inc()
		for _, o := range f.run.orders {
			o.left--
			l.confirm(o)
		}
		return
	}
	ref := f.run.task.Attempt
	delete(l.running, ref)
	if l.ctx.Err() != nil && f.err != nil {
		l.handBack(ref) // ended by the stop, not by itself: no verdict about the chunk
		return
	}
	res := stream.Result{Attempt: ref, Seconds: f.seconds}
	if f.err != nil {
		res.Error, res.Class, res.Log = job.ReasonOf(f.err), executor.ClassOf(f.err), f.log
		l.m.chunks.WithLabelValues(outcomeOf(res.Class)).Inc()
		l.log.Debug().Err(f.err).Str("job", string(ref.Job)).Int("chunk", ref.Chunk).Int("attempt", ref.Number).
			Msg("attempt failed")
	} else {
		res.Result = &f.result
		l.m.chunks.WithLabelValues("ok").Inc()
		l.m.seconds.Observe(f.seconds)
	}
	l.keep(res)
	if f.err == nil { // said once it is kept: who reads it may rely on the result
		l.log.Debug().Str("job", string(ref.Job)).Int("chunk", ref.Chunk).Int("attempt", ref.Number).Float64("seconds", f.seconds).
			Msg("attempt done")
	}
}

// outcomeOf is the label of a failure.
func outcomeOf(c job.FailureClass) string {
	if c == job.FailedInfra {
		return "infra"
	}
	return "failed"
}

// onStatus does what is done now and then, and tells the holder how it goes.
func (l *loop) onStatus() {
	n, err := l.outbox.Relieve(time.Now())
	l.journal(err)
	if n > 0 {
		l.m.dropped.Add(float64(n))
		l.log.Warn().Int("results", n).Msg("outbox full, oldest results given up")
	}
	l.fence()
	l.heed()
	if l.opts.Words != nil {
		l.opts.Words.Prune()
	}
	now := l.opts.Now()
	st := stream.Status{
		Running: l.refs(), Queued: len(l.queue), Kept: l.outbox.Len(), Draining: l.drained,
		Ready: !l.drained && !l.stopping && !l.outbox.Full() && l.opts.Takes(),
		Full:  l.opts.OutputRoom != nil && !l.opts.OutputRoom(), Pressure: l.opts.Pressure(),
	}
	for _, ref := range st.Running {
		r := l.running[ref]
		ask := r.ask.Load() // before what was done: that goes with it
		since := max(r.began, time.Duration(r.rose.Load()))
		st.Progress = append(st.Progress, stream.Progress{
			Attempt: ref, Done: r.done.Load(), Seconds: (now - r.began).Seconds(), Idle: max(0, (now - since).Seconds()), Ask: ask, Saved: r.saved.Load(),
		})
	}
	if len(l.queue) > 0 {
		st.QueueSeconds = (now - l.queue[0].at).Seconds()
	}
	l.m.queueAge.Set(st.QueueSeconds)
	l.sess.status(st)
}

// journal tells of trouble with the journal of the outbox, and reports whether
// err is of another kind.
func (l *loop) journal(err error) bool {
	if errors.Is(err, outbox.ErrJournal) {
		if l.m.journal.Inc(); l.outbox.JustFailed() {
			l.log.Error().Err(err).Msg("kept results are in memory only, a killed daemon loses them")
		}
		return false
	}
	return err != nil
}

// refs lists the running attempts in a fixed order.
func (l *loop) refs() []job.Attempt {
	return slices.SortedFunc(maps.Keys(l.running), job.Attempt.Compare)
}

func (l *loop) publish() {
	v := &View{
		Slots: l.opts.Slots, Running: l.refs(), Queued: len(l.queue),
		Kept: l.outbox.Len(), KeptBytes: l.outbox.Size(), Term: l.term, Draining: l.drained, Stopping: l.stopping,
	}
	if l.sess != nil {
		v.Holder = l.sess.from
	}
	l.view.Store(v)
	l.m.running.Set(float64(len(v.Running)))
	l.m.queued.Set(float64(v.Queued))
	l.m.draining.Set(0)
	if v.Draining {
		l.m.draining.Set(1)
	}
	l.m.kept.Set(float64(v.Kept))
	l.m.keptBytes.Set(float64(v.KeptBytes))
}
