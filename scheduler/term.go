package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/scheduler/after"
	"github.com/skein-project/skein/scheduler/link"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/plan/fair"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/runs"
	"github.com/skein-project/skein/scheduler/settle"
	"github.com/skein-project/skein/scheduler/stops"
	"github.com/skein-project/skein/scheduler/weight"
)

const (
	maxFrames = 1024 // worker frames that wait for the loop
	maxBatch  = 512  // events taken before what follows from them is logged
	// maxUnsettled is how many results may wait for stability before the loop
	// reads no more of them.
	maxUnsettled = 1 << 16
	// lullTick is the time between ticks while nothing is open.
	lullTick = time.Second
)

// term is the scheduler in one term. All but the inbox belongs to the loop.
type term struct {
	s   *Scheduler
	o   *Options
	m   *metrics
	log zerolog.Logger
	id  cluster.Term

	inbox    inbox
	plan     *plan.Plan
	batch    batch
	appender *appender
	settling *settle.Settling
	links    *links
	jobs     *jobs
	stops    stops.Jobs
	quiet    bool
	held     bool // the log has no room for new work
}

type pendingReply struct {
	to chan reply
	reply
}

func (s *Scheduler) newTerm(id cluster.Term) *term {
	log, in := s.log.With().Uint64("term", uint64(id)).Logger(), newInbox()
	cfg := s.o.Plan
	cfg.Salt = s.o.Salt()
	t := &term{
		s: s, o: &s.o, m: s.m, id: id, log: log, inbox: in, plan: plan.New(cfg),
		appender: &appender{to: s.o.Log, unaware: s.o.Unaware, m: s.m, log: log}, settling: settle.New(s.o.Log.WaitStable),
		links: newLinks(&s.o, s.m, log, id, in.frames), jobs: newJobs(s.o.Log, s.o.Unaware), stops: make(stops.Jobs),
	}
	t.jobs.flows = runs.New(flowHost{t}, runs.Files{Store: s.o.Keep, Find: s.o.Find, Read: s.o.Read}, s.m.runs, log)
	return t
}

// refuse answers what the loop has not.
func (t *term) refuse(err error) {
	for _, r := range t.batch.replies {
		switch {
		case r.err != nil:
		case t.batch.logging:
			r.err = fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
		default:
			r.err = ErrNotHolder
		}
		r.to <- r.reply
	}
	t.inbox.refuse()
}

// loop owns the plan. It takes what has come, decides, logs, and only then
// acts.
func (t *term) loop(ctx context.Context) error {
	tick := time.NewTimer(t.o.Tick)
	defer tick.Stop()
	lull := false // the next tick comes late
	if err := t.barrier(ctx); err != nil {
		return err
	}
	t.learnGroups()
	t.jobs.reserved.learn(t)
	t.load()
	t.jobs.flows.Load()
	t.meetMembers(ctx)
	for {
		t.lookForRoom()
		if err := commitAll(ctx, t); err != nil {
			return err
		}
		frames := t.inbox.frames
		if t.settling.Open() > maxUnsettled {
			frames = nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case r := <-t.inbox.urgent:
			t.request(r)
		case r := <-t.inbox.requests:
			t.request(r)
		case e := <-frames:
			t.link(ctx, e)
		case <-t.s.changed:
			t.meetMembers(ctx)
		case <-tick.C:
			t.tick()
			pause := t.pause()
			lull = pause > t.o.Tick
			tick.Reset(pause)
			continue // nothing has come
		case d := <-t.jobs.flows.Stored():
			if !t.quiet {
				t.jobs.flows.Take(d)
			}
		case t.settling.Give() <- t.settling.Waiting():
			t.settling.Given()
			continue
		case done := <-t.settling.Done():
			t.settling.Back()
			t.links.settled(done)
			continue
		}
		t.drain(ctx, frames)
		if lull { // what came may have opened something, or set a timer
			show(t)
			pause := t.pause()
			lull = pause > t.o.Tick
			tick.Reset(pause)
		}
	}
}

// tick does what time asks for.
func (t *term) tick() {
	t.step(step.Tick{})
	t.tendStopping()
	heldHost{t}.tendHeld()
	t.tellLives()
	now := t.o.Now()
	t.links.seats.Look(now, t.step)
	t.jobs.reserved.learn(t)
	t.sweep()
	if !t.quiet {
		t.jobs.flows.Tick(now)
	}
	if !t.links.walks(now) {
		if t.links.view.hidden {
			show(t)
		}
		return
	}
	t.links.view.hidden = false
	if !t.quiet {
		t.links.query(now)
	}
	t.observe()
}

// pause is the time to the next tick. While nothing is open and nothing comes,
// only what has its own, longer period is to be looked at.
func (t *term) pause() time.Duration {
	if len(t.stops) > 0 || t.settling.Open() > 0 {
		return t.o.Tick
	}
	now := t.o.Now()
	pause := wait.Until(time.Now(), lullTick) // with the other tickers
	if at, ok := t.plan.Next(now); ok {
		pause = min(pause, at-now)
	}
	if at, ok := t.jobs.flows.Next(now); ok {
		pause = min(pause, at-now)
	}
	if t.links.view.hidden {
		pause = min(pause, time.Until(t.links.view.at))
	}
	return max(pause, t.o.Tick)
}

// drain takes what has come meanwhile, so that one append carries it all; what
// is urgent first.
func (t *term) drain(ctx context.Context, frames <-chan link.Event) {
	for range maxBatch {
		select {
		case r := <-t.inbox.urgent:
			t.request(r)
			continue
		default:
		}
		select {
		case r := <-t.inbox.requests:
			t.request(r)
		case e := <-frames:
			t.link(ctx, e)
		default:
			return
		}
	}
}

// lookForRoom lets the plan give out work only as long as the log takes it.
func (t *term) lookForRoom() {
	if held := !t.o.Log.TakesWork(); held != t.held {
		t.held = held
		t.log.Warn().Bool("held", held).Msg("room for new work in the event log changed")
		t.step(step.Hold{On: held})
	}
}

// step lets the plan decide; commit carries it out.
func (t *term) step(e step.Event) {
	now := time.Now()
	if t.batch.began.IsZero() {
		t.batch.began = now
	}
	t.m.service.Begin(e, now)
	actions := t.plan.Step(e, t.o.Now())
	for i, a := range actions {
		if f, ok := a.(step.Finish); ok && t.holdBack(f, actions[i+1:]) {
			continue
		}
		if r, ok := a.(step.Released); ok {
			t.batch.drafts = append(t.batch.drafts, releases(t.id, r)...)
		}
		if x, ok := a.(step.Extend); ok {
			t.fact(event.KindChunkExtended, extended(x))
		}
		if d, ok := draftOf(t.id, a); ok {
			t.jobs.left.Note(&d)
			t.batch.add(d)
		}
		t.batch.actions = append(t.batch.actions, a)
	}
}

// load takes over the open jobs of the log. Hosts that have something by the log and
// are no members any more have left: they were removed while nobody scheduled, and
// nothing else would ever say so of them.
func (t *term) load() {
	open := t.jobs.load(time.Now())
	members, left := t.s.members(), make(map[cluster.NodeID]bool)
	for _, j := range open {
		for _, c := range j.Restore.Open {
			for _, r := range c.Tries {
				_, member := members[r.Worker]
				switch {
				case cluster.IsOutside(r.Worker):
					t.links.seats.Restore(r.Worker, t.o.Now())
				case !member:
					left[r.Worker] = true
				}
			}
		}
		t.jobs.after.Begin(heldHost{t}, j)
	}
	for _, n := range slices.Sorted(maps.Keys(left)) {
		t.step(step.HealthChanged{Worker: n, Health: cluster.Left})
	}
	t.log.Info().Int("jobs", len(open)).Msg("scheduling")
}

// meetMembers follows the membership, and tells the plan of every change.
func (t *term) meetMembers(ctx context.Context) {
	t.links.meet(ctx, t.s.members(), t.s.zones(), t.step)
	for _, e := range t.links.lives.Left(func(n cluster.NodeID) bool { return t.links.byNode[n] != nil }) {
		t.fact(event.KindWorkerDown, e)
	}
}

// link handles what a link tells; what comes from a stream that was replaced or
// from a host that left is void.
func (t *term) link(ctx context.Context, e link.Event) {
	l, ok := t.links.byNode[e.Sess.Node]
	if !ok {
		return
	}
	if e.Sess.Crew {
		if t.links.hear(l, e, t.step) {
			t.says(e.Worker, e)
		}
		return
	}
	n, begin := e.Sess.Node, e.Sess.Begin
	if e.Up {
		l.sess, l.nonce, l.asked = e.Sess, 0, t.o.Now()
		t.log.Debug().Str("peer", string(n)).Int("slots", begin.Slots).Msg("worker connected")
		owner := t.hostOwner(n)
		t.step(welcomeOf(n, begin, owner))
		t.tellUp(n, begin, owner)
		t.roundTrip(n, e.Sess.RTT)
		t.runs(n, begin.Assigned, true)
		t.links.followCrew(ctx, l, t.step)
		return
	}
	if l.sess != e.Sess {
		return
	}
	if e.Down == nil {
		t.says(n, e)
		return
	}
	l.sess = nil
	t.step(step.WorkerDisconnected{Worker: n})
	t.links.lives.Lost(n, link.EndReason(e.Down), t.o.Now())
}

// says handles what a worker says on its stream.
func (t *term) says(n cluster.NodeID, e link.Event) {
	switch {
	case e.Result != nil:
		t.jobs.left.Hear(e.Result.At(n), e.Result.Log)
		t.step(resultOf(n, t.jobs.left.Bound(t.jobs.specs[e.Result.Job].spec, *e.Result)))
		t.jobs.left.Hear(job.Attempt{}, cluster.Hash{})
	case e.Pong > 0:
		t.roundTrip(n, e.Pong)
	case e.Status != nil:
		t.step(statusOf(n, *e.Status))
		t.links.lives.Running(n, *e.Status)
		t.runs(n, e.Status.Running, false)
	case e.Stopped != nil:
		if t.stops.Stopped(n, *e.Stopped) {
			t.end(e.Stopped.Job)
		}
	case e.Holds != nil:
		if t.links.answers(n, e.Holds.Nonce) {
			t.step(holdsOf(n, *e.Holds))
		}
	}
}

// roundTrip tells the plan how long it takes to hear from a worker of what it
// was given: there and back, and what the log takes before.
func (t *term) roundTrip(n cluster.NodeID, d time.Duration) {
	t.step(step.RoundTrip{Worker: n, Time: d + t.appender.took})
}

// observe updates the metrics and the view of the workers.
func (t *term) observe() {
	s := t.plan.Stats()
	t.m.starved.Set(float64(s.JobsStarved))
	t.m.jobs.WithLabelValues(string(job.Pending)).Set(float64(s.JobsPending))
	t.m.jobs.WithLabelValues(string(job.Running)).Set(float64(s.JobsRunning))
	t.m.service.Flows(t.jobs.flows.Open())
	t.m.open.WithLabelValues("pending").Set(float64(s.ChunksPending))
	t.m.open.WithLabelValues("assigned").Set(float64(s.ChunksAssigned))
	t.m.unsettled.Set(float64(t.settling.Open()))
	views := t.plan.Workers()
	for i := range views {
		views[i].Via = t.links.seats.Via(views[i].Worker)
	}
	t.s.workers.Store(&views)
	t.lookAtWaiting()
	t.m.service.Look(views, time.Now())
}

// waitingEvery is how often is looked which jobs wait: there may be many of them.
const waitingEvery = 500 * time.Millisecond

// lookAtWaiting lists the jobs that wait, counts them, and tells the log why.
func (t *term) lookAtWaiting() {
	now, wall := t.o.Now(), t.o.Wall()
	if t.jobs.looked > 0 && now-t.jobs.looked < waitingEvery {
		return
	}
	t.jobs.looked = max(now, 1)
	list := t.plan.Waiting(now)
	t.m.service.Waiting(list)
	if len(list) == 0 || t.tells(event.KindJobWaits) {
		for _, e := range t.jobs.waits.Look(list, t.jobs.open, now) {
			t.fact(event.KindJobWaits, e)
		}
	}
	out := heldHost{t}.heldJobs()
	for _, w := range list {
		out = append(out, Waiting{Job: w.Job, Since: wallOf(w.Since, now, wall), Why: w.Why})
	}
	t.s.waiting.Store(&out)
}

// wallOf is when at was, to the second: the two clocks do not go alike.
func wallOf(at, now time.Duration, wall time.Time) time.Time {
	return wall.Add(at - now).Truncate(time.Second)
}

// explain says what keeps each worker from a job.
func (t *term) explain(id job.ID) (Waiting, error) {
	now := t.o.Now()
	if h, held := t.jobs.after.Get(id); held {
		return heldHost{t}.heldJob(h, after.Judge(h.Spec.After, heldHost{t}.State).Waits), nil
	}
	why, since, ok := t.plan.Explain(id, now)
	if !ok {
		return Waiting{}, t.jobs.notOpen(id)
	}
	out := Waiting{Job: id, Why: why}
	if since > 0 {
		out.Since = wallOf(since, now, t.o.Wall())
	}
	return out, nil
}

// request decides about one request; it is answered after the commit.
func (t *term) request(r request) {
	answer := func(a reply) { t.batch.replies = append(t.batch.replies, pendingReply{to: r.reply, reply: a}) }
	switch {
	case r.quiesce:
		if !t.quiet {
			t.quiet = true
			t.step(step.Quiesce{})
		}
		answer(reply{})
	case t.quiet:
		answer(reply{err: ErrNotHolder})
	case r.submit != nil:
		created, spec, err := t.submit(*r.submit)
		answer(reply{created: created, spec: spec, err: err})
	case r.flow != nil:
		a, err := flowHost{t}.ask(*r.flow)
		answer(reply{flow: a, err: err})
	case r.set != nil:
		answer(reply{err: t.set(r.set)})
	case r.explain != "":
		why, err := t.explain(r.explain)
		answer(reply{why: why, err: err})
	case r.release != nil:
		n, err := t.release(*r.release)
		answer(reply{chunks: n, err: err})
	case r.stop != nil:
		answer(reply{err: t.stopJob(*r.stop)})
	}
}

func (t *term) submit(b submission) (created bool, spec job.Spec, err error) {
	want := b.Spec.Fingerprint()
	if have, ok := t.jobs.fingerprint(b.Job); ok {
		if have != want && (!b.Spec.ChunkAuto || have != b.Spec.FixedFingerprint()) {
			return false, spec, ErrKeyReused
		}
		return false, t.jobs.spec(b.Job, b.Spec), nil
	}
	if who := t.o.Unaware(event.FilesOfJob()); b.Spec.HasFiles() && len(who) > 0 {
		return false, spec, &UnawareError{Kind: event.FilesOfJob(), Nodes: who}
	}
	if why := t.plan.Foresee(b.Spec, b.Owner, t.o.Now()); why.Never && !b.waits {
		return false, spec, &NoWorkerError{Why: why}
	}
	if who := t.o.Unaware(event.KindChunkSaved); b.Spec.Checkpoint && len(who) > 0 {
		return false, spec, &UnawareError{Kind: event.KindChunkSaved, Nodes: who}
	}
	if err := after.Check(b.Spec.After, heldHost{t}.State); err != nil {
		return false, spec, err
	}
	if len(b.Spec.After) > 0 && t.jobs.after.Full(b.Owner) {
		return false, spec, t.busy(&fair.Refusal{After: fullAfter})
	}
	if t.lookForRoom(); t.held {
		return false, spec, ErrNoRoom
	}
	if b.Spec.ChunkAuto {
		n := t.plan.ChunkSize(b.Spec, b.rate)
		if n == 0 && !b.tried && t.o.Trial != nil && t.plan.MayRun(t.o.Self, b.Spec, b.Owner) {
			if r := t.plan.Refuse(b.Owner, t.o.Now()); r != nil {
				return false, spec, t.busy(r)
			}
			return false, spec, errUnmeasured
		}
		if n > 0 {
			b.Spec.Chunk = max(n, b.Spec.LeastChunk())
			b.Chunks = b.Spec.Chunks()
		}
	}
	if r := t.plan.Admit(b.Owner, b.Chunks, int64(weight.Of(event.Draft{Body: b.JobSubmitted})), t.o.Now()); r != nil {
		return false, spec, t.busy(r)
	}
	t.jobs.add(b.Job, owned{b.Spec, b.Owner}, want)
	t.batch.add(event.Draft{Term: t.id, Kind: event.KindJobSubmitted, Body: b.JobSubmitted})
	t.jobs.after.Begin(heldHost{t}, step.JobAdded{Job: b.Job, Spec: b.Spec, Owner: b.Owner})
	t.log.Info().Str("job", string(b.Job)).Int("chunks", b.Chunks).Str("owner", b.Owner).Msg("job submitted")
	return true, b.Spec, nil
}

// busy is how a submission ends that is above its owner's limits.
func (t *term) busy(r *fair.Refusal) error {
	t.m.busy.Inc()
	return fmt.Errorf("%w: %w", ErrBusy, r)
}

func (t *term) stopJob(b event.JobStopped) error {
	if _, ends := t.stops[b.Job]; ends {
		return nil // as was asked before
	}
	if t.jobs.open(b.Job) {
		who := b.Actor
		if b.Reason != "" {
			who += ": " + b.Reason
		}
		if (heldHost{t}).stopHeld(b, who) {
			return nil
		}
		t.batch.add(event.Draft{Term: t.id, Kind: event.KindJobStopped, Body: b})
		t.step(step.JobStopped{Job: b.Job, Actor: who})
		return nil
	}
	return t.jobs.notOpen(b.Job)
}

// release lets what was given up of a job be tried again, and says how many
// chunks that are.
func (t *term) release(e step.JobReleased) (chunks int, err error) {
	if !t.jobs.open(e.Job) || t.stops[e.Job] != nil {
		return 0, t.jobs.notOpen(e.Job)
	}
	before := len(t.batch.actions)
	t.step(e)
	for _, a := range t.batch.actions[before:] {
		if r, ok := a.(step.Released); ok {
			for _, s := range r.Chunks {
				chunks += s.Last - s.First + 1
			}
			t.log.Info().Str("job", string(e.Job)).Str("actor", e.Actor).Int("chunks", chunks).Msg("chunks released")
		}
	}
	return chunks, nil
}
