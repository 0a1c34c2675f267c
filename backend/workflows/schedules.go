package workflows

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/state/schedules"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/scheduler/runs"
	"github.com/skein-project/skein/scheduler/schedule"
)

// showNext is how many times of a schedule are shown that are to come.
const showNext = 3

// compileSchedule checks a schedule and its workflow.
func (w *Runs) compileSchedule(ctx context.Context, owner string, q forward.ScheduleSet) (event.ScheduleSet, []cluster.Hash, error) {
	b := event.ScheduleSet{
		Schedule: flow.NewScheduleID(owner, q.Name), Owner: owner, Name: q.Name, Cron: strings.TrimSpace(q.Cron), Zone: q.Zone, Missed: q.Missed,
		MissedSeconds: q.MissedSeconds, Overlap: q.Overlap, Paused: q.Paused,
	}
	if err := flow.CheckScheduleName(q.Name); err != nil {
		return b, nil, err
	}
	switch {
	case !q.Missed.Known():
		return b, nil, flow.Invalidf("missed is %.32q, want skip, last or all", string(q.Missed))
	case !q.Overlap.Known():
		return b, nil, flow.Invalidf("overlap is %.32q, want skip, queue_one, queue, replace or allow", string(q.Overlap))
	case q.MissedSeconds < 0 || q.MissedSeconds > flow.MaxMissed:
		return b, nil, flow.Invalidf("missed_seconds is %d, want 0-%d", q.MissedSeconds, flow.MaxMissed)
	}
	if _, err := schedule.Parse(q.Cron, q.Zone); err != nil {
		return b, nil, err
	}
	if err := w.o.Aware(event.KindScheduleSet); err != nil {
		return b, nil, err
	}
	run, hashes, err := w.compile(ctx, owner, forward.RunSubmission{Key: q.Name, Definition: q.Definition, Params: q.Params})
	b.Def, b.Params = run.Def, run.Params
	return b, hashes, err
}

// SetSchedule implements workflows.Control of package status.
func (w *Runs) SetSchedule(ctx context.Context, actor, name string, req api.ScheduleRequest) (api.Schedule, error) {
	q := forward.ScheduleSet{
		Name: name, Definition: req.Definition, Params: req.Params, Cron: req.Cron, Zone: req.Zone, Missed: cmp.Or(req.Missed, flow.MissedLast),
		MissedSeconds: flow.DefaultMissed, Overlap: cmp.Or(req.Overlap, req.Definition.Concurrency.Overlap, flow.OverlapSkip), Paused: req.Paused,
	}
	if req.MissedSeconds != nil {
		q.MissedSeconds = *req.MissedSeconds
	}
	b, hashes, err := w.compileSchedule(ctx, actor, q)
	if err != nil || req.CheckOnly {
		return show(schedules.Schedule{ScheduleSet: b, Set: cluster.NewHLC(time.Now(), 0)}, 0), problem(err)
	}
	if err := w.o.AwaitHolder(ctx); err != nil {
		return api.Schedule{}, err
	}
	if err := w.o.Spread(ctx, hashes); err != nil {
		return api.Schedule{}, err
	}
	var before cluster.HLC
	w.o.Log.View(func(st *state.State) { s, _ := st.Schedules().Schedule(b.Schedule); before = s.Set })
	if _, err := forward.AskHolder(ctx, w.o.Remote, forward.SetSchedule, actor, q); err != nil {
		return api.Schedule{}, err
	}
	w.Await(ctx, func(st *state.State) bool { s, ok := st.Schedules().Schedule(b.Schedule); return ok && s.Set > before })
	return w.Schedule(ctx, b.Schedule)
}

func (w *Runs) setScheduleHere(ctx context.Context, by forward.Asker, q forward.ScheduleSet) (forward.None, error) {
	b, _, err := w.compileSchedule(ctx, by.Actor, q)
	if err != nil {
		return forward.None{}, problem(err)
	}
	b.Actor = clip(by.Actor, maxActor)
	_, err = w.o.Scheduler.Flow(ctx, runs.Request{Set: &b})
	return forward.None{}, problem(err)
}

// ChangeSchedule implements workflows.Control of package status.
func (w *Runs) ChangeSchedule(ctx context.Context, actor string, id flow.ScheduleID, what string) (api.Schedule, error) {
	if _, err := forward.AskHolder(ctx, w.o.Remote, forward.ChangeSchedule, w.at(actor), forward.ScheduleChange{Schedule: id, What: what}); err != nil {
		return api.Schedule{}, err
	}
	w.Await(ctx, func(st *state.State) bool {
		s, ok := st.Schedules().Schedule(id)
		return !ok || what != runs.Remove && s.Paused == (what == runs.Pause)
	})
	if what == runs.Remove {
		return api.Schedule{}, nil
	}
	return w.Schedule(ctx, id)
}

// RunSchedule implements workflows.Control of package status.
func (w *Runs) RunSchedule(ctx context.Context, actor string, id flow.ScheduleID, key string) (api.WorkflowSubmitted, error) {
	out, err := forward.AskHolder(ctx, w.o.Remote, forward.ChangeSchedule, w.at(actor), forward.ScheduleChange{Schedule: id, What: runs.RunNow, Key: key})
	if err != nil {
		return api.WorkflowSubmitted{}, err
	}
	w.Await(ctx, func(st *state.State) bool { _, ok := st.Flows().Run(out.Run); return ok })
	return api.WorkflowSubmitted{Run: out.Run, Created: out.Created}, nil
}

func (w *Runs) changeScheduleHere(ctx context.Context, by forward.Asker, q forward.ScheduleChange) (forward.RunSubmitted, error) {
	switch q.What {
	case runs.Pause, runs.Resume, runs.Remove, runs.RunNow:
	default:
		return forward.RunSubmitted{}, api.Errorf(api.CodeInvalidRequest, "a schedule cannot be asked for %.32q", q.What)
	}
	a, err := w.o.Scheduler.Flow(ctx, runs.Request{Change: &runs.Change{Schedule: q.Schedule, What: q.What, Key: q.Key, Actor: clip(by.Actor, maxActor)}})
	return forward.RunSubmitted{Run: a.Run, Created: a.Created}, problem(err)
}

// FindSchedule implements workflows.Control of package status.
func (w *Runs) FindSchedule(text, owner string) (flow.ScheduleID, error) {
	var list []api.Named
	w.o.Log.View(func(st *state.State) {
		for _, s := range st.Schedules().Schedules() {
			list = append(list, api.Named{ID: string(s.Schedule), Name: s.Name, Owner: s.Owner})
		}
	})
	id, err := api.Find(list, text, owner, "schedule", "schedules", "skein schedule ls")
	return flow.ScheduleID(id), err
}

// Schedules implements workflows.Control of package status.
func (w *Runs) Schedules(context.Context) (api.Schedules, error) {
	var list []schedules.Schedule
	open := make(map[flow.ScheduleID]int)
	w.o.Log.View(func(st *state.State) {
		list = st.Schedules().Schedules()
		for _, r := range st.Flows().Runs() {
			if r.Open() && r.Schedule != "" {
				open[r.Schedule]++
			}
		}
	})
	out := api.Schedules{Schedules: make([]api.Schedule, 0, len(list))}
	for _, s := range list {
		out.Schedules = append(out.Schedules, show(s, open[s.Schedule]))
	}
	return out, nil
}

// Schedule implements workflows.Control of package status.
func (w *Runs) Schedule(ctx context.Context, id flow.ScheduleID) (api.Schedule, error) {
	all, err := w.Schedules(ctx)
	i := slices.IndexFunc(all.Schedules, func(s api.Schedule) bool { return s.ID == id })
	if err != nil || i < 0 {
		return api.Schedule{}, api.Errorf(api.CodeNotFound, "no schedule %s", id).WithHint("see `skein schedule ls`")
	}
	return all.Schedules[i], nil
}

// show is a schedule as users see it.
func show(s schedules.Schedule, open int) api.Schedule {
	out := api.Schedule{
		ID: s.Schedule, Name: s.Name, Owner: s.Owner, Workflow: s.Name, Cron: s.Cron, Zone: cmp.Or(s.Zone, "UTC"), Missed: s.Missed, MissedSeconds: s.MissedSeconds,
		Overlap: s.Overlap, Paused: s.Paused, SetAt: s.Set.Time().UTC(), SetBy: s.Actor, Next: []time.Time{}, Last: []api.ScheduleTime{}, OpenRuns: open,
	}
	if def, err := flow.Decode(s.Def); err == nil {
		out.Workflow = cmp.Or(def.Name, s.Name)
	}
	if spec, err := schedule.Parse(s.Cron, s.Zone); err == nil && !s.Paused {
		at := time.Now()
		if after := time.Unix(s.After(), 0); after.After(at) {
			at = after
		}
		for range showNext {
			if at = spec.Next(at); at.IsZero() {
				break
			}
			out.Next = append(out.Next, at.UTC())
		}
	}
	for _, t := range slices.Backward(s.Times) {
		out.Last = append(out.Last, api.ScheduleTime{At: time.Unix(t.At, 0).UTC(), LoggedAt: t.Logged.Time().UTC(), Run: t.Run, Skipped: t.Skipped, Missed: t.Missed})
	}
	return out
}
