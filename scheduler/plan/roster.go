package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/eligible"
	"github.com/skein-project/skein/scheduler/plan/pace"
	"github.com/skein-project/skein/scheduler/plan/reserve"
	"github.com/skein-project/skein/scheduler/plan/trust"
	"github.com/skein-project/skein/scheduler/plan/vital"
)

// roster is all workers: who may get something now, and from whom it should be
// copied.
type roster struct {
	cfg     *Config
	timers  *timers
	classes *eligible.Classes
	kinds   *pace.Kinds

	workers  []*worker // by index, nil: vacant
	vacant   []int32
	byNode   map[cluster.NodeID]*worker
	roomy    int // workers that may get something now
	spare    int // those of them with a free slot
	narrow   int // workers that accept not everybody's jobs
	doubtful []*worker
	book     trust.Book
	kept     reserve.Book
}

// listed says in which of the roster's counts and lists a worker is.
type listed struct {
	open     bool // it may get something now
	spare    bool // and it has a free slot
	narrow   bool // it accepts not everybody's jobs
	doubtful bool
}

func newRoster(cfg *Config, timers *timers) *roster {
	return &roster{cfg: cfg, timers: timers, classes: eligible.NewClasses(), kinds: pace.NewKinds(), byNode: make(map[cluster.NodeID]*worker)}
}

// get returns the worker of a host, and makes it if there is none.
func (r *roster) get(n cluster.NodeID, now time.Duration) *worker {
	if w := r.byNode[n]; w != nil {
		return w
	}
	w := &worker{node: n, Contact: vital.Contact{Since: now, Revived: now}, vitals: vitals{output: now}, Standing: r.book.Standing(n)}
	w.timer.worker = w
	r.learn(w)
	if free := len(r.vacant); free > 0 {
		w.host.Index, r.vacant = r.vacant[free-1], r.vacant[:free-1]
		r.workers[w.host.Index] = w
	} else {
		w.host.Index = int32(len(r.workers))
		r.workers = append(r.workers, w)
	}
	w.pace.Index = w.host.Index
	r.byNode[n] = w
	return w
}

// forget drops a worker that is gone for good.
func (r *roster) forget(w *worker, now time.Duration) {
	if w.Health != cluster.Left || w.Connected || len(w.tries) > 0 {
		return
	}
	r.review(w, now) // it leaves every class
	r.book.Keep(w.node, w.Standing)
	w.host.Stranger = false
	r.accepts(w, w.host.Owner, job.Acceptance{})
	r.timers.stop(&w.timer)
	r.kinds.Drop(&w.pace)
	delete(r.byNode, w.node)
	r.workers[w.host.Index] = nil
	r.vacant = append(r.vacant, w.host.Index)
}

// accepts takes in whose worker w is and whose jobs it runs. The caller reviews w.
func (r *roster) accepts(w *worker, owner string, a job.Acceptance) {
	w.host.Owner, w.host.Accept = owner, a
	is := w.host.Narrows()
	switch {
	case is && !w.narrow:
		r.narrow++
	case !is && w.narrow:
		r.narrow--
	}
	w.narrow = is
}

// learn takes in how far w is believed. The caller reviews w.
func (r *roster) learn(w *worker) {
	w.host.Stranger, w.host.Established = w.Stranger, w.Stranger && w.Established()
}

// class returns the class of a job that begins.
func (r *roster) class(spec job.Spec, owner string) *eligible.Class {
	c, fresh := r.classes.Open(spec, owner)
	if fresh {
		r.enter(c)
	}
	return c
}

func (r *roster) enter(c *eligible.Class) {
	for _, w := range r.workers {
		if w != nil {
			r.classes.Enter(c, &w.host, w.standing())
		}
	}
}

// kind returns the kind of work of a job that begins.
func (r *roster) kind(spec job.Spec) *pace.Kind {
	k, forgotten := r.kinds.Open(spec)
	for _, w := range r.workers {
		if forgotten != nil && w != nil {
			w.pace.Forget(forgotten)
		}
	}
	return k
}

// leave takes in that a job of that class and kind ended.
func (r *roster) leave(c *eligible.Class, k *pace.Kind) {
	r.kinds.Close(k)
	r.classes.Close(c)
}

// setGroup replaces the members of a group.
func (r *roster) setGroup(group string, members []string) {
	for _, c := range r.classes.SetGroup(group, members) {
		r.enter(c)
	}
}

// review looks again at all that w may do. It is called after every change of
// what w is allowed or fit to do.
func (r *roster) review(w *worker, now time.Duration) {
	r.gauge(w, now)
	r.classes.Review(&w.host, w.standing())
	r.doubt(w, now)
}

// place puts w where its load belongs. It is called after every change of what
// w has to do.
func (r *roster) place(w *worker, now time.Duration) {
	r.gauge(w, now)
	r.classes.Place(&w.host, w.standing())
}

// gauge looks again whether w has room for more.
func (r *roster) gauge(w *worker, now time.Duration) {
	is := w.serves() && w.hasRoom(r.cfg, now)
	if is != w.open {
		w.open = is
		if is {
			r.roomy++
		} else {
			r.roomy--
		}
	}
	if spare := is && len(w.tries) < w.slots; spare != w.spare {
		w.spare = spare
		if spare {
			r.spare++
		} else {
			r.spare--
		}
	}
}

// doubt keeps the list of the doubtful, and the timer that lets a worker become
// one.
func (r *roster) doubt(w *worker, now time.Duration) {
	if is := w.uncertain(r.cfg, now); is != w.doubtful {
		w.doubtful = is
		if is {
			r.doubtful = append(r.doubtful, w)
		} else {
			r.doubtful = slices.DeleteFunc(r.doubtful, func(o *worker) bool { return o == w })
		}
	}
	switch {
	case !w.Connected && !w.doubtful:
		r.timers.set(&w.timer, w.Since+w.grace(r.cfg))
	case now < w.until:
		r.timers.set(&w.timer, w.until)
	}
}

// wake handles a worker's timer.
func (r *roster) wake(w *worker, now time.Duration) {
	if w.signal == vital.Stuck && now >= w.until {
		w.signal, w.output = vital.Idle, now // another chance
	}
	r.review(w, now)
}

// rest lets w get nothing new for a while.
func (r *roster) rest(w *worker, until, now time.Duration) {
	w.until = until
	r.timers.set(&w.timer, until)
	r.place(w, now)
}

// evict lets w take no part for a while, and says why.
func (r *roster) evict(w *worker, now time.Duration) (reason string) {
	reason = fmt.Sprintf("worker is stuck: nothing came from it for %s", (now - w.output).Round(time.Second))
	w.signal = vital.Stuck
	w.until = now + min(lastEvict, firstEvict<<min(w.evictions, 10))
	w.evictions++
	r.timers.set(&w.timer, w.until)
	r.review(w, now)
	return reason
}

// slots counts the slots of all members that take part and have the executor; empty:
// any. What strangers say of theirs decides nothing.
func (r *roster) slots(executor string) (n int) {
	for _, w := range r.workers {
		if w != nil && !w.Stranger && w.serves() && (executor == "" || slices.Contains(w.host.Executors, executor)) {
			n += w.slots
		}
	}
	return n
}

// zoneSlots counts the slots of hosts that take part, by zone.
func (r *roster) zoneSlots() map[string]int {
	slots := make(map[string]int)
	for _, w := range r.workers {
		if w != nil && !w.Stranger && w.serves() {
			slots[w.host.Zone] += w.slots
		}
	}
	return slots
}

// WorkerView is what the plan knows of a worker.
type WorkerView struct {
	Worker    cluster.NodeID
	Via       cluster.NodeID // the host at which an outside worker is attached; the scheduler's
	Connected bool
	Health    cluster.Health
	Slots     int
	Tries     int
	Backlog   uint64        // iterations assigned and not answered
	Drain     time.Duration // until it is done with them
	Rate      float64       // iterations per second at its latest work; 0: not measured yet
	Window    int           // attempts that it may hold
	Draining  bool
	Ready     bool
	Owner     string         // whose worker it is; empty: nobody's in particular
	Accept    job.Acceptance // whose jobs it runs
	Signal    vital.Signal
	Verdict   vital.Verdict
	Trusted   bool           // its results are believed without another's
	Stranger  bool           // and if so, because it was right often
	Until     time.Duration  // it gets nothing until then; 0: it does
	Running   []pace.Running // what it said of the attempts that it runs
}

// views describes the workers by name.
func (r *roster) views(now time.Duration) []WorkerView {
	out := make([]WorkerView, 0, len(r.byNode))
	for _, w := range r.workers {
		if w == nil {
			continue
		}
		v := WorkerView{
			Worker: w.node, Connected: w.Connected, Health: w.Health, Slots: w.slots, Tries: len(w.tries), Backlog: w.backlog,
			Drain: w.load / time.Duration(max(1, w.slots)), Window: w.holds(r.cfg), Draining: w.draining, Ready: !w.unready,
			Owner: w.host.Owner, Accept: w.host.Accept, Signal: w.signal, Verdict: w.verdict(), Trusted: w.Trusted(), Stranger: w.Stranger, Rate: w.pace.Latest() * float64(w.slots),
		}
		if w.until > now {
			v.Until = w.until
		}
		for _, t := range w.tries {
			if t.runs && t.job.chunks[t.chunk].tries[0] == t {
				v.Running = pace.Run(v.Running, t.job.id, &t.Progress, now)
			}
		}
		if rate, left := pace.Left(v.Running, v.Backlog); v.Rate == 0 && rate > 0 { // no result yet
			v.Rate, v.Drain = rate, left
		}
		out = append(out, v)
	}
	slices.SortFunc(out, func(a, b WorkerView) int { return cmp.Compare(a.Worker, b.Worker) })
	return out
}
