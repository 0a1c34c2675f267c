package runs

import (
	"bytes"
	"cmp"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/state/schedules"
	"github.com/skein-project/skein/scheduler/schedule"
)

const (
	// maxAtOnce bounds how many schedules begin runs in one turn of the loop: the others
	// follow in the next.
	maxAtOnce = 16
	// putOff is when a run is tried again that could not be submitted.
	putOff = 10 * time.Second
	// skippedOverlap says of a time that its run would have met another.
	skippedOverlap = "other runs have not ended"
)

// Change is what somebody wants of a schedule that there is.
type Change struct {
	Schedule flow.ScheduleID
	What     string // one of those below
	Key      string // of the run, for RunNow: the same key again is the same run
	Actor    string
}

// What a Change can be.
const (
	Pause  = "pause"
	Resume = "resume"
	Remove = "remove"
	RunNow = "run"
)

// Metrics say how well times are kept.
type Metrics struct {
	late   prometheus.Histogram
	missed prometheus.Counter
}

// NewMetrics returns Metrics of a host that has kept no time yet.
func NewMetrics() *Metrics {
	return &Metrics{
		late: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "skein_schedule_late_seconds", Help: "From the time of a schedule to the beginning of its run by this host.",
			Buckets: prometheus.ExponentialBuckets(0.01, 4, 12),
		}),
		missed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_schedule_missed_total", Help: "Times of schedules that got no run as nobody kept them, as this host found out.",
		}),
	}
}

// Collectors are those to register.
func (m *Metrics) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.late, m.missed}
}

// timetable is what is known of the schedules that there are.
type timetable struct {
	m       *Metrics
	all     map[flow.ScheduleID]*clock
	changed map[flow.ScheduleID]bool // in the batch: to be read again when the log has it
	soonest time.Time                // when something is due; zero: never
}

// clock is one schedule.
type clock struct {
	schedules.Schedule
	spec    schedule.Spec
	sharing flow.Sharing
	name    string    // of its runs
	after   time.Time // nothing up to then is due
	next    time.Time // when something is due; zero: never
}

func newTimetable(m *Metrics) *timetable {
	return &timetable{m: m, all: make(map[flow.ScheduleID]*clock), changed: make(map[flow.ScheduleID]bool)}
}

// loadSchedules reads all schedules.
func (r *Runs) loadSchedules() {
	r.t.View(func(st *state.State) {
		for _, s := range st.Schedules().Schedules() {
			r.times.changed[s.Schedule] = true
		}
	})
	r.learnSchedules()
}

// learnSchedules reads again those that were changed, and reports whether there were any.
func (r *Runs) learnSchedules() bool {
	tt := r.times
	if len(tt.changed) == 0 {
		return false
	}
	for id := range tt.changed {
		delete(tt.all, id)
		var s schedules.Schedule
		known := false
		r.t.View(func(st *state.State) { s, known = st.Schedules().Schedule(id) })
		if !known {
			continue
		}
		c := &clock{Schedule: s, after: time.Unix(s.After(), 0).UTC()}
		def, err := flow.Decode(s.Def)
		if err == nil {
			c.spec, err = schedule.Parse(s.Cron, s.Zone)
		}
		if err != nil {
			r.log.Error().Str("schedule", string(id)).Err(err).Msg("schedule begins nothing, it makes no sense to this version")
			c.Paused = true
		} else {
			c.sharing, c.name = def.SharingOf(id, s.Overlap), cmp.Or(def.Name, s.Name)
		}
		tt.all[id] = c
		c.look()
	}
	clear(tt.changed)
	tt.look()
	return true
}

// look finds when c is due next.
func (c *clock) look() {
	c.next = time.Time{}
	if !c.Paused {
		c.next = c.spec.Next(c.after)
	}
}

// look finds when something is due next.
func (tt *timetable) look() {
	tt.soonest = time.Time{}
	for _, c := range tt.all {
		if !c.next.IsZero() && (tt.soonest.IsZero() || c.next.Before(tt.soonest)) {
			tt.soonest = c.next
		}
	}
}

// keepTimes begins the runs whose time has come.
func (r *Runs) keepTimes() {
	tt, wall := r.times, r.t.Wall()
	if tt.soonest.IsZero() || wall.Before(tt.soonest) || !r.t.Begins() {
		return
	}
	n := 0
	for _, c := range tt.all {
		if c.next.IsZero() || wall.Before(c.next) {
			continue
		}
		if n++; n > maxAtOnce {
			break // soonest has come: the next tick goes on
		}
		r.keep(c, wall)
	}
	tt.look()
}

// keep begins the runs of a schedule that are due.
func (r *Runs) keep(c *clock, wall time.Time) {
	due := c.spec.Due(c.after, wall, schedule.Policy{Missed: c.Missed, Window: time.Duration(c.MissedSeconds) * time.Second})
	missed := due.Missed
	fired := func(at time.Time, b event.ScheduleFired) {
		b.Schedule, b.At, b.Missed = c.Schedule.Schedule, at.Unix(), missed
		r.t.Draft(r.draft(event.KindScheduleFired, b))
		r.times.m.missed.Add(float64(missed))
		c.after, missed = at, 0
	}
	for _, at := range due.At {
		b := c.run(c.Schedule.Schedule.RunAt(c.Owner, at.Unix()))
		b.At = at.Unix()
		switch _, err := r.submit(b, c.sharing.Overlap); {
		case err == nil:
			fired(at, event.ScheduleFired{Run: b.Run})
			r.times.m.late.Observe(max(0, wall.Sub(at).Seconds()))
			r.log.Info().Str("schedule", c.Name).Str("run", string(b.Run)).Time("at", at).Msg("time of a schedule came")
		case errors.Is(err, ErrOverlap):
			fired(at, event.ScheduleFired{Skipped: skippedOverlap})
		case errors.Is(err, ErrMany), errors.Is(err, ErrUnknown):
			// As many runs are open as may be, or one is to be stopped that was submitted just
			// now: the time stands until it counts as missed.
			r.log.Warn().Str("schedule", c.Name).Err(err).Time("at", at).Msg("run of a schedule is put off")
			c.next = wall.Add(putOff)
			return
		default:
			fired(at, event.ScheduleFired{Skipped: clip(err.Error())})
		}
	}
	if missed > 0 {
		fired(due.Last, event.ScheduleFired{Skipped: "missed"})
	}
	if due.Last.IsZero() {
		c.after = wall // what was due is out of the window
	}
	c.look()
}

// run is the submission of a run of the schedule.
func (c *clock) run(id flow.RunID) event.WorkflowSubmitted {
	return event.WorkflowSubmitted{
		Run: id, Owner: c.Owner, Name: c.name, Def: c.Def, Params: c.Params, Schedule: c.Schedule.Schedule, Group: c.sharing.Group, Limit: c.sharing.Limit,
	}
}

// setSchedule makes a schedule, or another of one.
func (r *Runs) setSchedule(b event.ScheduleSet) error {
	n, have := 0, false
	r.t.View(func(st *state.State) { n, have = st.Schedules().Count(b.Schedule) })
	if n+len(r.times.changed) >= flow.MaxSchedules && !have {
		return ErrManySchedules
	}
	r.say(b)
	return nil
}

// say logs what a schedule is from now on.
func (r *Runs) say(b event.ScheduleSet) {
	b.Since = r.t.Wall().Unix()
	r.t.Draft(r.draft(event.KindScheduleSet, b))
	r.times.changed[b.Schedule] = true
	r.log.Info().Str("schedule", b.Name).Str("owner", b.Owner).Str("actor", b.Actor).Bool("paused", b.Paused).Bool("removed", b.Removed).Msg("schedule set")
}

func (r *Runs) changeSchedule(q Change) (Answer, error) {
	var s schedules.Schedule
	known := false
	r.t.View(func(st *state.State) { s, known = st.Schedules().Schedule(q.Schedule) })
	if !known {
		return Answer{}, ErrNoSchedule
	}
	b := s.ScheduleSet
	b.Actor = q.Actor
	switch q.What {
	case Pause, Resume:
		if b.Paused == (q.What == Pause) {
			return Answer{}, nil // as was asked before
		}
		b.Paused = q.What == Pause
		r.say(b)
	case Remove:
		r.say(event.ScheduleSet{Schedule: b.Schedule, Owner: b.Owner, Name: b.Name, Removed: true, Actor: b.Actor})
	default:
		c, ok := r.times.all[q.Schedule]
		if !ok || !bytes.Equal(c.Def, s.Def) {
			return Answer{}, ErrNoSchedule // it was said in this very moment
		}
		run := c.run(q.Schedule.RunBy(c.Owner, q.Key))
		a, err := r.submit(run, c.sharing.Overlap)
		a.Run = run.Run
		return a, err
	}
	return Answer{}, nil
}
