package plan

import (
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/fair"
	"github.com/skein-project/skein/scheduler/plan/limits"
	"github.com/skein-project/skein/scheduler/plan/step"
)

// Limits of the plan.
const (
	// MaxBackoff bounds the pause before a failed chunk is tried again.
	MaxBackoff = 5 * time.Second
	// MaxCells bounds chunks times metrics of a job: what its aggregates
	// hold in memory.
	MaxCells = 1 << 21

	firstBackoff = 100 * time.Millisecond
	maxAttempt   = 1 << 20         // attempt numbers above are no honest worker's
	scanLimit    = 16              // chunks of a job looked at for one assignment
	maxHosts     = 4               // hosts on which a chunk may fail before it is parked
	minTimed     = 3               // run times to know before attempts count as late
	minCopyAge   = 2 * time.Second // of an attempt that is copied near the end
	floodFactor  = 4
)

// Config holds the plan's times and limits.
type Config = limits.Config

// Plan is the state of all open jobs and of the workers in one term. It takes
// events and hands each to the part that it is about; what these decide is
// gathered in out.
type Plan struct {
	cfg   *Config
	now   time.Duration
	quiet bool
	held  bool // nothing new is given out

	out    *step.Actions
	timers *timers
	roster *roster
	round  *fair.Round[*openJob]
	work   *work
	choice *chooser
	intake *intake
	watch  watch
}

// New returns a plan without jobs and workers.
func New(cfg Config) *Plan {
	cfg = cfg.WithDefaults()
	p := &Plan{
		cfg: &cfg, out: &step.Actions{}, timers: &timers{},
		round: fair.NewRound[*openJob](cfg.Owner, cfg.MaxJobs), watch: watch{stuck: cfg.Stuck},
	}
	p.roster = newRoster(p.cfg, p.timers)
	p.work = &work{cfg: p.cfg, out: p.out, timers: p.timers, roster: p.roster, round: p.round, byID: make(map[job.ID]*openJob)}
	p.choice = &chooser{out: p.out, roster: p.roster, work: p.work}
	p.intake = &intake{cfg: p.cfg, out: p.out, roster: p.roster, work: p.work}
	return p
}

// Step applies one event at a time that never falls and returns what to do, in
// a slice that is good until the next Step.
func (p *Plan) Step(e step.Event, now time.Duration) []step.Action {
	if p.quiet {
		return nil
	}
	p.out.Begin()
	p.now = now
	p.expire(now)
	switch e := e.(type) {
	case step.JobAdded:
		p.work.addJob(e, now)
	case step.JobStopped:
		if j := p.work.byID[e.Job]; j != nil {
			p.work.finish(j, cancelled, "stopped by "+e.Actor, now)
		}
	case step.JobMoved:
		if j := p.work.byID[e.Job]; j != nil {
			j.spec.Zones = e.Zones
			p.work.reclass(j)
		}
	case step.JobConcluded:
		if j := p.work.byID[e.Job]; j != nil && j.waits {
			j.waits, j.spec.OnPartial = false, job.PartialFinish
			p.work.conclude(j, now)
		}
	case step.JobReleased:
		p.work.release(e, now)
	case step.WorkerConnected:
		p.connect(e, now)
	case step.WorkerDisconnected:
		p.disconnect(e, now)
	case step.WorkerStatus:
		p.status(e, now)
	case step.WorkerHolds:
		p.holds(e, now)
	case step.Draining:
		w := p.roster.get(e.Worker, now)
		w.draining = e.On
		p.roster.review(w, now)
	case step.RoundTrip:
		w := p.roster.get(e.Worker, now)
		w.rtt = min(max(e.Time, 0), maxRTT)
		p.roster.place(w, now)
	case step.HostKnown:
		w := p.roster.get(e.Worker, now)
		w.host.Zone = e.Zone
		p.roster.review(w, now)
	case step.OwnerChanged:
		w := p.roster.get(e.Worker, now)
		p.accepts(w, e.Owner, e.Accept)
		p.roster.review(w, now)
	case step.Reserved:
		p.roster.kept.Set(e.List)
	case step.GroupChanged:
		p.roster.setGroup(e.Group, e.Members)
	case step.HealthChanged:
		p.setHealth(e, now)
	case step.Result:
		p.intake.result(e, now)
	case step.Tick:
		p.evictStuck(now)
		p.work.starve(now)
	case step.Hold:
		p.held = e.On
	case step.Quiesce:
		p.quiet = true
		return p.out.List
	}
	p.roster.kept.Count(p.roster.zoneSlots)
	if !p.held {
		p.round.Fill(p.choice, now)
		p.choice.copyDoubtful(now)
		if _, ok := e.(step.Tick); ok {
			p.choice.copyLast(now)
		}
	}
	return p.out.List
}

// expire handles everything that is due, in the order of time.
func (p *Plan) expire(now time.Duration) {
	for t := p.timers.due(now); t != nil; t = p.timers.due(now) {
		switch {
		case t.try != nil:
			p.work.overdue(t.try, now)
		case t.worker != nil:
			p.roster.wake(t.worker, now)
		case t.chunk >= 0:
			p.work.retry(t.job, t.chunk)
		default:
			p.work.timeUp(t.job, now)
		}
	}
}

// Next is when a Tick has something to do at the latest: at once as long as a job
// is open; ok is false if nothing waits.
func (p *Plan) Next(now time.Duration) (at time.Duration, ok bool) {
	if len(p.work.jobs) > 0 {
		return now, true
	}
	return p.timers.next()
}

// Stats counts what is open.
func (p *Plan) Stats() Stats { return p.work.stats() }

// Workers describes the workers by name.
func (p *Plan) Workers() []WorkerView { return p.roster.views(p.now) }

// Admit counts a submission of that many chunks and bytes against the owner's
// limits, or refuses it.
func (p *Plan) Admit(owner string, chunks int, bytes int64, now time.Duration) *fair.Refusal {
	return p.round.Admit(owner, chunks, bytes, now)
}

// Refuse says whether Admit would refuse a submission of owner, however small.
func (p *Plan) Refuse(owner string, now time.Duration) *fair.Refusal {
	return p.round.Refuse(owner, now)
}

// ChunkSize chooses the iterations of a chunk for a job that leaves that to the
// cluster, by the measured rate, else by that of a trial: see pace.Kinds. It returns 0
// when nothing was measured at that kind of work.
func (p *Plan) ChunkSize(spec job.Spec, trial float64) uint64 {
	return p.roster.kinds.ChunkSize(spec, p.roster.slots(spec.Needs()), trial)
}

// MayRun reports whether the worker of n may run a job of owner now.
func (p *Plan) MayRun(n cluster.NodeID, spec job.Spec, owner string) bool {
	w := p.roster.byNode[n]
	return w != nil && w.lacks() == "" && p.roster.classes.Takes(spec, owner, &w.host)
}

// Slots counts the slots of the hosts of a zone that take part.
func (p *Plan) Slots(zone string) int { return p.roster.zoneSlots()[zone] }
