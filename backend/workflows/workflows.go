package workflows

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/state/flows"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
	decide "github.com/skein-project/skein/scheduler/flow"
	"github.com/skein-project/skein/scheduler/flow/template"
	"github.com/skein-project/skein/scheduler/runs"
)

const (
	// awaitTime is how long a change is waited for that the holder acknowledged, until
	// this host's log has it.
	awaitTime = 5 * time.Second
	maxActor  = 128
)

// Scheduler is the one of this host.
type Scheduler interface {
	Flow(ctx context.Context, q runs.Request) (runs.Answer, error)
}

// Log is the event log as it is folded.
type Log interface {
	View(func(*state.State))
	Changed() <-chan struct{}
}

// Options of Runs. All must be set.
type Options struct {
	Self      cluster.NodeID
	Log       Log
	Scheduler Scheduler
	Remote    *forward.Router
	// Check refuses the job of a step that cannot run, Spread puts what steps need on
	// enough voters, AwaitHolder waits until one is known.
	Check func(ctx context.Context, spec job.Spec) error
	// Files refuses files that are not the owner's, and returns those that were uploaded.
	Files       func(ctx context.Context, spec job.Spec, owner string) ([]cluster.Hash, error)
	Spread      func(ctx context.Context, hashes []cluster.Hash) error
	AwaitHolder func(ctx context.Context) error
	// Aware refuses a kind of event that a member which lives does not know.
	Aware func(event.Kind) error
	// InZone reports whether a member names that zone.
	InZone func(zone string) bool
	// Zones chooses those of a run of a job in each; it is asked on the holder.
	Zones func(id flow.RunID, q flow.Zoned) ([]string, error)
}

// Runs implements the part of status.Backend about workflows. Its methods may be called
// from any goroutine.
type Runs struct{ o Options }

// New returns Runs.
func New(o Options) *Runs { return &Runs{o: o} }

// Handle registers what this host carries out for others.
func (w *Runs) Handle(r *forward.Router) {
	forward.Handle(r, forward.RunWorkflow, w.submitHere)
	forward.Handle(r, forward.StopWorkflow, w.stopHere)
	forward.Handle(r, forward.RetryWorkflow, w.retryHere)
	forward.Handle(r, forward.SetSchedule, w.setScheduleHere)
	forward.Handle(r, forward.ChangeSchedule, w.changeScheduleHere)
}

// compile checks a definition and the jobs of its steps.
func (w *Runs) compile(ctx context.Context, owner string, q forward.RunSubmission) (event.WorkflowSubmitted, []cluster.Hash, error) {
	if q.Key == "" || len(q.Key) > job.MaxKeyBytes {
		return event.WorkflowSubmitted{}, nil, flow.Invalidf("key has %d bytes, want 1-%d", len(q.Key), job.MaxKeyBytes)
	}
	if strings.HasPrefix(q.Key, flow.SchedulePrefix) {
		return event.WorkflowSubmitted{}, nil, flow.Invalidf("key begins with %s, as those of schedules do", flow.SchedulePrefix)
	}
	def, err := q.Definition.Encode()
	if err != nil {
		return event.WorkflowSubmitted{}, nil, err
	}
	if q.Params == nil {
		q.Params = map[string]json.RawMessage{}
	}
	params, err := json.Marshal(q.Params)
	if err != nil || len(params) > flow.MaxParamBytes {
		return event.WorkflowSubmitted{}, nil, flow.Invalidf("params of %d bytes, at most %d are allowed", len(params), flow.MaxParamBytes)
	}
	b := event.WorkflowSubmitted{Run: flow.NewRunID(owner, q.Key), Owner: owner, Name: q.Definition.Name, Def: def, Params: params}
	if _, err := runs.GraphOf(b); err != nil {
		return b, nil, err
	}
	kind := event.KindFlowSubmitted
	if share := q.Definition.Sharing(); share.Group != "" {
		b.Group, b.Limit, kind = share.Group, share.Limit, event.KindScheduleSet // who knows schedules knows groups
	}
	if err := w.o.Aware(kind); err != nil {
		return b, nil, err
	}
	if q.Definition.HasFiles() {
		if err := w.o.Aware(event.FilesOfJob()); err != nil {
			return b, nil, err
		}
	}
	if q.Definition.HasProviders() {
		if err := w.o.Aware(event.KeptJobs()); err != nil {
			return b, nil, err
		}
	}
	needs := make(map[cluster.Hash]bool)
	var hashes []cluster.Hash
	for _, s := range q.Definition.Steps {
		for _, spec := range s.Jobs() {
			more, err := w.needs(ctx, spec, owner, needs)
			if err != nil {
				return b, nil, ofStep(s.Name, err)
			}
			hashes = append(hashes, more...)
		}
	}
	return b, hashes, nil
}

// needs checks a job of a step, and returns what it needs that others before it do not.
func (w *Runs) needs(ctx context.Context, spec job.Spec, owner string, have map[cluster.Hash]bool) ([]cluster.Hash, error) {
	hashes, err := w.o.Files(ctx, spec, owner)
	if err != nil {
		return nil, err
	}
	known := true
	for _, h := range spec.Hashes() {
		if !have[h] {
			have[h], known = true, false
			hashes = append(hashes, h)
		}
	}
	if known {
		return hashes, nil
	}
	return hashes, w.o.Check(ctx, spec.WithDefaults())
}

// ofStep says of which step a problem is.
func ofStep(name string, err error) error {
	if p, ok := errors.AsType[*api.Problem](err); ok {
		p.Detail = "step " + name + ": " + p.Detail
	}
	return err
}

// SubmitWorkflow implements workflows.Control of package status.
func (w *Runs) SubmitWorkflow(ctx context.Context, actor string, req api.WorkflowRequest) (api.WorkflowSubmitted, error) {
	q := forward.RunSubmission{Key: req.Key, Definition: req.Definition, Params: req.Params}
	b, hashes, err := w.compile(ctx, actor, q)
	if _, before := w.run(b.Run); err == nil && !before && !req.WaitForWorker {
		err = checkZones(req.Definition, w.o.InZone)
	}
	if err != nil || req.CheckOnly {
		return api.WorkflowSubmitted{Run: b.Run}, problem(err)
	}
	if err := w.o.AwaitHolder(ctx); err != nil {
		return api.WorkflowSubmitted{}, err
	}
	if err := w.o.Spread(ctx, hashes); err != nil {
		return api.WorkflowSubmitted{}, err
	}
	out, err := forward.AskHolder(ctx, w.o.Remote, forward.RunWorkflow, actor, q)
	if err != nil {
		return api.WorkflowSubmitted{}, err
	}
	w.Await(ctx, func(st *state.State) bool { _, ok := st.Flows().Run(out.Run); return ok })
	return api.WorkflowSubmitted{Run: out.Run, Created: out.Created}, nil
}

func (w *Runs) submitHere(ctx context.Context, by forward.Asker, q forward.RunSubmission) (forward.RunSubmitted, error) {
	def, zones, err := w.definition(by.Actor, q)
	if err != nil {
		return forward.RunSubmitted{}, problem(err)
	}
	q.Definition = def
	b, _, err := w.compile(ctx, by.Actor, q)
	if err != nil {
		return forward.RunSubmitted{}, problem(err)
	}
	a, err := w.o.Scheduler.Flow(ctx, runs.Request{Submit: &b, Overlap: q.Definition.Sharing().Overlap})
	return forward.RunSubmitted{Run: b.Run, Created: a.Created, Zones: zones}, problem(err)
}

// StopWorkflow implements workflows.Control of package status.
func (w *Runs) StopWorkflow(ctx context.Context, actor string, id flow.RunID, req api.WorkflowStop) (api.Workflow, error) {
	if _, err := forward.AskHolder(ctx, w.o.Remote, forward.StopWorkflow, w.at(actor), forward.RunStop{Run: id, Reason: req.Reason, Now: req.Now}); err != nil {
		return api.Workflow{}, err
	}
	w.Await(ctx, func(st *state.State) bool {
		run, ok := st.Flows().Run(id)
		return !ok || run.Stop != nil || !run.Open()
	})
	return w.Workflow(ctx, id)
}

func (w *Runs) stopHere(ctx context.Context, by forward.Asker, q forward.RunStop) (forward.None, error) {
	_, err := w.o.Scheduler.Flow(ctx, runs.Request{Stop: &event.WorkflowStopped{
		Run: q.Run, Actor: clip(by.Actor, maxActor), Reason: clip(q.Reason, cluster.MaxReason/2), Now: q.Now,
	}})
	return forward.None{}, problem(err)
}

// RetryWorkflow implements workflows.Control of package status.
func (w *Runs) RetryWorkflow(ctx context.Context, actor string, id flow.RunID, req api.WorkflowRetry) (api.Workflow, error) {
	run, ok := w.run(id)
	if !ok {
		return api.Workflow{}, unknown(id)
	}
	round := run.Round + 1
	if _, err := forward.AskHolder(ctx, w.o.Remote, forward.RetryWorkflow, w.at(actor), forward.RunRetry{Run: id, Round: round, From: req.From}); err != nil {
		return api.Workflow{}, err
	}
	w.Await(ctx, func(st *state.State) bool {
		run, ok := st.Flows().Run(id)
		return !ok || run.Round >= round
	})
	return w.Workflow(ctx, id)
}

func (w *Runs) retryHere(ctx context.Context, by forward.Asker, q forward.RunRetry) (forward.None, error) {
	_, err := w.o.Scheduler.Flow(ctx, runs.Request{Retry: &event.WorkflowRetried{Run: q.Run, Round: q.Round, From: q.From, Actor: clip(by.Actor, maxActor)}})
	return forward.None{}, problem(err)
}

func (w *Runs) at(actor string) string { return forward.At(actor, w.o.Self) }

func clip(s string, most int) string { return flow.Clip(s, most) }

// Await waits for a short time until this host's log says what the holder acknowledged.
func (w *Runs) Await(ctx context.Context, there func(*state.State) bool) {
	ctx, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	_ = wait.Seen(ctx, w.o.Log.Changed, func() (is bool) { // what is not here soon is shown without it
		w.o.Log.View(func(s *state.State) { is = there(s) })
		return is
	})
}

func (w *Runs) run(id flow.RunID) (run flows.Run, ok bool) {
	w.o.Log.View(func(st *state.State) { run, ok = st.Flows().Run(id) })
	return run, ok
}

// WorkflowOwner implements workflows.Control of package status.
func (w *Runs) WorkflowOwner(id flow.RunID) string {
	run, _ := w.run(id)
	return run.Owner
}

// FindWorkflow implements workflows.Control of package status.
func (w *Runs) FindWorkflow(text, owner string) (flow.RunID, error) {
	var list []api.Named
	w.o.Log.View(func(st *state.State) {
		for _, r := range slices.Backward(st.Flows().Runs()) {
			list = append(list, api.Named{ID: string(r.Run), Name: r.Name, Owner: r.Owner})
		}
	})
	id, err := api.Find(list, text, owner, "run of a workflow", "runs", "skein workflow ls")
	return flow.RunID(id), err
}

// Workflows implements workflows.Control of package status, newest first.
func (w *Runs) Workflows(context.Context) (api.Workflows, error) {
	var list []flows.Run
	w.o.Log.View(func(st *state.State) { list = st.Flows().Runs() })
	out := api.Workflows{Workflows: make([]api.Workflow, 0, len(list)), Omitted: max(0, len(list)-api.MaxWorkflows)}
	list = list[out.Omitted:]
	now := time.Now()
	for _, r := range slices.Backward(list) {
		out.Workflows = append(out.Workflows, summary(r, now))
	}
	return out, nil
}

// Workflow implements workflows.Control of package status.
func (w *Runs) Workflow(_ context.Context, id flow.RunID) (api.Workflow, error) {
	run, ok := w.run(id)
	if !ok {
		return api.Workflow{}, unknown(id)
	}
	now := time.Now()
	out := summary(run, now)
	_ = json.Unmarshal(run.Params, &out.Params) // what is logged can be read
	g, err := runs.GraphOf(run.WorkflowSubmitted)
	if err != nil {
		return out, nil // this version cannot say more
	}
	m := decide.New(g, run, 0, now)
	m.Step(decide.Begin{}, 0) // what it asks for is the holder's to do
	out.Steps = stepsOf(m.View())
	out.Disputed = slices.ContainsFunc(run.Tries, func(t flows.Try) bool { return t.Disputed })
	return out, nil
}

func summary(r flows.Run, now time.Time) api.Workflow {
	out := api.Workflow{
		ID: r.Run, Name: r.Name, Owner: r.Owner, State: r.State, Reason: r.Reason, Place: r.Place, Group: r.Group, Schedule: r.Schedule, Round: r.Round,
		SubmittedAt: r.Submitted.Time().UTC(),
	}
	end := now
	if !r.Open() {
		end = r.Ended.Time().UTC()
		out.FinishedAt = &end
	}
	out.ElapsedSeconds = max(0, end.Sub(out.SubmittedAt).Seconds())
	if r.Stop != nil {
		out.StoppedBy, out.StopReason = r.Stop.Actor, r.Stop.Reason
	}
	return out
}

func stepsOf(list []decide.StepView) []api.WorkflowStep {
	out := make([]api.WorkflowStep, 0, len(list))
	for _, s := range list {
		one := api.WorkflowStep{
			Name: s.Def.Name, Role: s.Def.Role, State: s.State, Reason: s.Reason, After: s.Def.After, AfterFailed: s.Def.AfterFailed,
			AfterDone: s.Def.AfterDone, OnFailure: s.Def.OnFailure, Many: len(s.Def.Each) > 0 || len(s.Def.Matrix) > 0,
			Total: len(s.Instances), Counts: s.Counts, Instances: []api.WorkflowInstance{},
		}
		for _, plain := range []bool{false, true} {
			for _, in := range s.Instances {
				if in.Disputed && !plain {
					one.Disputed++
				}
				if v := instanceOf(in); v.Plain() == plain && len(one.Instances) < api.MaxInstances {
					v.Item = clipItem(v.Item)
					one.Instances = append(one.Instances, v)
				}
			}
		}
		slices.SortFunc(one.Instances, func(a, b api.WorkflowInstance) int { return cmp.Compare(a.Index, b.Index) })
		out = append(out, one)
	}
	return out
}

func instanceOf(in decide.Instance) api.WorkflowInstance {
	return api.WorkflowInstance{
		Index: in.Index, State: in.State, Try: in.Try, Job: in.Job, Provider: in.Provider, Disputed: in.Disputed, Reason: in.Reason, Item: in.Item, Outputs: in.Outputs,
	}
}

// clipItem stands in the place of an item that is too large to be shown with each instance.
func clipItem(item any) any {
	if template.Larger(item, api.MaxItemBytes) {
		return fmt.Sprintf("(more than %d bytes)", api.MaxItemBytes)
	}
	return item
}

func unknown(id flow.RunID) error {
	return api.Errorf(api.CodeNotFound, "no run %s of a workflow", id).WithHint("see `skein workflow ls`")
}

// problem turns an error about workflows into one that a user can act on; others are
// left to whoever knows them.
func problem(err error) error {
	switch {
	case errors.Is(err, flow.ErrInvalid):
		return api.Errorf(api.CodeInvalidJob, "%v", err).WithHint("see docs/workflows.md, and try it with --dry-run")
	case errors.Is(err, runs.ErrUnknown):
		return api.Errorf(api.CodeNotFound, "%v", err).WithHint("see `skein workflow ls`")
	case errors.Is(err, runs.ErrKeyReused):
		return api.Errorf(api.CodeConflict, "%v", err).WithHint("choose another --key")
	case errors.Is(err, runs.ErrOver):
		return api.Errorf(api.CodeConflict, "%v", err).WithHint("`skein workflow retry` begins what is not completed again")
	case errors.Is(err, runs.ErrOpen):
		return api.Errorf(api.CodeConflict, "%v", err).WithHint("`skein workflow stop` ends it")
	case errors.Is(err, runs.ErrMany):
		return api.Errorf(api.CodeOverloaded, "%v: at most %d, and %d of one owner", err, runs.MaxOpen, runs.MaxOwnerOpen).WithHint("wait until one has ended")
	case errors.Is(err, runs.ErrOverlap):
		return api.Errorf(api.CodeConflict, "%v, and the workflow says that it is not to wait for them", err).WithHint("`skein workflow ls` shows them")
	case errors.Is(err, runs.ErrNoSchedule):
		return api.Errorf(api.CodeNotFound, "%v", err).WithHint("see `skein schedule ls`")
	case errors.Is(err, runs.ErrManySchedules):
		return api.Errorf(api.CodeInvalidJob, "%v: at most %d", err, flow.MaxSchedules).WithHint("`skein schedule rm` ends one that is not needed")
	case errors.Is(err, runs.ErrNoStep):
		return api.Errorf(api.CodeNotFound, "%v", err).WithHint("`skein workflow status` shows the steps")
	case errors.Is(err, runs.ErrRounds):
		return api.Errorf(api.CodeConflict, "%v", err).WithHint("submit it under another key")
	}
	return err
}
