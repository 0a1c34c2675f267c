package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/state/flows"
	decide "github.com/skein-project/skein/scheduler/flow"
	"github.com/skein-project/skein/scheduler/plan/fair"
)

const (
	maxEntries = 512 // of one event
	// storeAgain is when a document is stored again that could not be, fullAgain when one
	// is that found no room in the queue, refusedAgain when a job is submitted again.
	storeAgain   = time.Second
	fullAgain    = 100 * time.Millisecond
	refusedAgain = time.Second
	sweepEvery   = 10 * time.Second
	maxSweep     = 256
	// holder is who stops a run when nobody asked for it.
	holder = "holder"
)

// Term is the scheduler in one term of the lease, as far as runs need it.
type Term interface {
	ID() cluster.Term
	// Draft puts an event into the batch.
	Draft(event.Draft)
	// Submit submits a job; it is found if it was submitted before. An error that is a
	// *fair.Refusal says when to try again, ErrLater that some time is needed.
	Submit(b event.JobSubmitted) error
	// Released says that the job was submitted for what had ended at a time.
	Released(id job.ID, since time.Duration)
	// Release has what was given up of a job tried again, Conclude ends one that waits for
	// somebody to say whether it is to be.
	Release(id job.ID)
	Conclude(id job.ID)
	// StopJob has a job of the run end.
	StopJob(id job.ID)
	View(func(*state.State))
	Now() time.Duration
	Wall() time.Time
	// Begins says that the log takes new work that nobody asked for just now.
	Begins() bool
	// Keeps says that all members know that tries go on with the jobs of others.
	Keeps() bool
	// Holds says that all members know that jobs wait for a retry of their run.
	Holds() bool
}

// ErrLater says that a job cannot be submitted just now.
var ErrLater = errors.New("not now")

// Runs is all that goes on in one term. Its methods belong to the loop of the term, but
// for Run.
type Runs struct {
	t   Term
	log zerolog.Logger
	helpers
	open map[flow.RunID]*decide.Machine
	jobs map[job.ID]name // of tries that run

	times *timetable
	queue []flow.RunID // that wait for others of their group
	fresh []flow.RunID // to be made when the log has what was decided of them
	ended []end        // in the log, or will be after the commit
	holds holds
	told  map[flow.RunID]event.WorkflowSubmitted // submitted and not in the log yet
	swept time.Duration

	// cause is when what is being decided about had happened, causes the same of tries whose
	// documents are being stored; 0: not by the end of a job.
	cause  time.Duration
	causes map[name]time.Duration
}

// helpers do what takes time.
type helpers struct {
	asm    *assembler
	files  *finder
	values *reader
}

// Files are how the documents and files of steps are stored, found and read.
type Files struct {
	Store Store // nil: there are none
	Find  Find  // nil: no file is ever lost
	Read  Read
}

// holds are the jobs of steps that wait for somebody to say whether what was given up of
// them is tried again.
type holds struct {
	why  map[job.ID]string
	news []job.ID // that the runs were not told of
}

// end is that of a job, and when it was logged; 0: before.
type end struct {
	job job.ID
	at  time.Duration
}

type name struct {
	run flow.RunID
	decide.Name
}

// New returns Runs without any; see Load.
func New(t Term, f Files, m *Metrics, log zerolog.Logger) *Runs {
	asm := newAssembler(f.Store)
	return &Runs{
		times: newTimetable(m), t: t, log: log, helpers: helpers{asm, newFinder(f.Find, asm.out), newReader(f.Read, f.Find, asm.out)},
		holds: holds{why: make(map[job.ID]string)}, open: make(map[flow.RunID]*decide.Machine), jobs: make(map[job.ID]name),
		told: make(map[flow.RunID]event.WorkflowSubmitted), causes: make(map[name]time.Duration),
	}
}

// Run stores documents, looks for files and reads some until ctx ends.
func (r *Runs) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { r.files.run(ctx) })
	all.Go(func() { r.values.run(ctx) })
	r.asm.run(ctx)
}

// Stored yields documents that were stored, and files that were looked for, for Take.
func (r *Runs) Stored() <-chan Stored { return r.asm.out }

// Load goes on with the runs that are open by the log.
func (r *Runs) Load() {
	var open []flow.RunID
	r.t.View(func(st *state.State) { open = st.Flows().Open() })
	for _, id := range open {
		r.load(id)
	}
	r.loadSchedules()
	if len(open) > 0 {
		r.log.Info().Int("runs", len(open)).Msg("workflows go on")
	}
}

// load makes the Machine of a run from the log, and lets it begin.
func (r *Runs) load(id flow.RunID) {
	if _, known := r.open[id]; known {
		return
	}
	m, round, running, err := r.machine(id)
	if errors.Is(err, errQueued) {
		r.queue = append(r.queue, id)
		return
	}
	if err != nil {
		r.log.Error().Str("run", string(id)).Err(err).Msg("workflow ends, its definition makes no sense to this version")
		r.t.Draft(r.draft(event.KindFlowDone, event.WorkflowDone{Run: id, Round: round, State: flow.Failed, Reason: clip(err.Error())}))
		return
	}
	if m == nil {
		return
	}
	r.open[id] = m
	maps.Copy(r.jobs, running)
	r.step(id, decide.Begin{})
	r.t.View(func(st *state.State) {
		for id := range running {
			if j, ok := st.Job(id); !ok || j.State.Final() {
				r.ended = append(r.ended, end{job: id})
			}
		}
	})
}

// machine makes the Machine of a run that is open, and says which jobs of it run.
func (r *Runs) machine(id flow.RunID) (m *decide.Machine, round int, running map[job.ID]name, err error) {
	r.t.View(func(st *state.State) {
		run, ok := st.Flows().Run(id)
		if !ok || !run.Open() {
			return
		}
		round = run.Round
		if run.State == flow.Queued {
			err = errQueued
			return
		}
		var g *decide.Graph
		if g, err = GraphOf(run.WorkflowSubmitted); err != nil {
			return
		}
		m = decide.New(g, run, r.t.Now(), r.t.Wall())
		running = make(map[job.ID]name)
		for _, t := range run.Tries {
			if t.End == nil && t.Round == run.Round {
				running[t.Job] = name{id, decide.Name{Step: t.Step, Index: t.Index, Try: t.Try}}
			}
		}
	})
	return m, round, running, err
}

// errQueued says that a run waits for others of its group.
var errQueued = errors.New("queued")

// GraphOf compiles a workflow as it was submitted.
func GraphOf(b event.WorkflowSubmitted) (*decide.Graph, error) {
	def, err := flow.Decode(b.Def)
	if err != nil {
		return nil, err
	}
	var params map[string]json.RawMessage
	if err := json.Unmarshal(b.Params, &params); err != nil {
		return nil, flow.Invalidf("params: %s", err)
	}
	return decide.Compile(def, params)
}

// JobEnded takes in that the end of a job goes into the log.
func (r *Runs) JobEnded(id job.ID) {
	delete(r.holds.why, id)
	if _, ours := r.jobs[id]; ours {
		r.ended = append(r.ended, end{id, r.t.Now()})
	}
}

// JobHeld takes in that a job waits, as all that is open of it was given up. It reports
// whether a run may say what becomes of it.
func (r *Runs) JobHeld(id job.ID, why string) (ours bool) {
	r.t.View(func(st *state.State) {
		j, _ := st.Job(id)
		ours = strings.HasPrefix(j.Spec.Key, flow.KeyPrefix)
	})
	if ours {
		r.holds.why[id] = why
		r.holds.news = append(r.holds.news, id)
	}
	return ours
}

// JobReleased takes in that a job waits no more: what was given up of it is tried again.
func (r *Runs) JobReleased(id job.ID) { delete(r.holds.why, id) }

// jobHeld tells a run that a job of it waits.
func (r *Runs) jobHeld(id job.ID) {
	n, ok := r.jobs[id]
	why, held := r.holds.why[id]
	if !ok || !held {
		return
	}
	e := decide.JobHeld{Name: n.Name, State: job.Failed, Reason: why}
	r.t.View(func(st *state.State) {
		if j, _ := st.Job(id); j.Counts.Accepted > 0 {
			e.State = job.Partial
		}
	})
	r.step(n.run, e)
}

// Follow does what follows from what the log has by now. It reports whether there was
// anything.
func (r *Runs) Follow() bool {
	fresh, ended, held := r.fresh, r.ended, r.holds.news
	r.fresh, r.ended, r.holds.news = nil, nil, nil
	clear(r.told)
	changed := r.learnSchedules()
	for _, id := range fresh {
		r.load(id)
	}
	for _, e := range ended {
		r.cause = e.at
		r.jobEnded(e.job)
	}
	r.cause = 0
	for _, id := range held {
		r.jobHeld(id)
	}
	return len(fresh)+len(ended)+len(held) > 0 || changed
}

func (r *Runs) jobEnded(id job.ID) {
	n, ok := r.jobs[id]
	if !ok {
		return
	}
	e := decide.JobEnded{Name: n.Name, State: job.Failed, Reason: "its job was forgotten"}
	r.t.View(func(st *state.State) {
		j, ok := st.Job(id)
		if !ok {
			return
		}
		e.State, e.Reason, e.Left = j.State, j.Reason, st.Outputs(id)
		if result, ok := st.Result(id); ok {
			e.Result = &result
		}
	})
	if !e.State.Final() {
		return // it goes on: another end is to come
	}
	delete(r.jobs, id)
	r.step(n.run, e)
}

// Tick does what time asks for.
func (r *Runs) Tick(now time.Duration) {
	for id, m := range r.open {
		if at, ok := m.Next(now); ok && at <= now {
			r.step(id, decide.Tick{})
		}
	}
	r.keepTimes()
	r.sweep(now)
}

// Open counts the runs that have not ended: those that wait for others of their group, and
// of those that go on the ones that are to end.
func (r *Runs) Open() (queued, running, stopping int) {
	queued = len(r.queue)
	for _, m := range r.open {
		if ends, _ := m.Ends(); ends {
			stopping++
		} else {
			running++
		}
	}
	return queued, running, stopping
}

// Next is when something is due by itself, if anything is.
func (r *Runs) Next(now time.Duration) (at time.Duration, ok bool) {
	if soonest := r.times.soonest; !soonest.IsZero() {
		at, ok = now+soonest.Sub(r.t.Wall()), true
	}
	for _, m := range r.open {
		if one, due := m.Next(now); due && (!ok || one < at) {
			at, ok = one, true
		}
	}
	return at, ok
}

// Take takes in that a document was stored, or what of some files is lost.
func (r *Runs) Take(s Stored) {
	if s.values != nil {
		if s.err != nil {
			r.log.Warn().Str("run", string(s.run)).Str("step", s.name.Step).Err(s.err).Msg("what a provider left cannot be read, trying again")
			r.step(s.run, decide.Refused{Name: s.name, After: storeAgain})
			return
		}
		r.step(s.run, decide.Values{Name: s.name, Values: s.values, Lost: len(s.lost) > 0})
		return
	}
	if s.looked {
		if len(s.lost) > 0 {
			r.log.Warn().Str("run", string(s.run)).Str("step", s.name.Step).Int("files", len(s.lost)).Msg("files for a step are on no host any more")
		}
		n := name{s.run, s.name}
		r.cause = r.causes[n]
		delete(r.causes, n)
		r.step(s.run, decide.Located{Name: s.name, Lost: s.lost})
		r.cause = 0
		return
	}
	if s.err != nil {
		r.log.Warn().Str("run", string(s.run)).Str("step", s.name.Step).Err(s.err).Msg("config document of a step not stored, trying again")
		delete(r.causes, name{s.run, s.name})
		r.step(s.run, decide.Refused{Name: s.name, After: storeAgain})
		return
	}
	n := name{s.run, s.name}
	r.cause = r.causes[n]
	delete(r.causes, n)
	r.step(s.run, decide.Assembled{Name: s.name, Config: s.config})
	r.cause = 0
}

// step lets a run's Machine decide, and carries out what it asks for.
func (r *Runs) step(id flow.RunID, e decide.Event) {
	m, ok := r.open[id]
	if !ok {
		return
	}
	var out gathered
	for todo := []decide.Event{e}; len(todo) > 0; todo = todo[1:] {
		for _, a := range m.Step(todo[0], r.t.Now()) {
			if back := r.act(id, m, a, &out); back != nil {
				todo = append(todo, back)
			}
		}
	}
	r.write(id, &out)
}

// gathered is what one step of a Machine says for the log.
type gathered struct {
	starts []event.StepStart
	ends   []event.StepEnd
	last   []event.Draft // behind the others
}

// act carries out one action; what it returns is for the Machine to know.
func (r *Runs) act(id flow.RunID, m *decide.Machine, a decide.Action, out *gathered) decide.Event {
	there := false
	switch a := a.(type) {
	case decide.Locate:
		if r.files.find == nil {
			return decide.Located{Name: a.Name}
		}
		if !r.files.put(search{run: id, name: a.Name, files: a.Files, fresh: a.Fresh}) {
			return decide.Refused{Name: a.Name, After: fullAgain}
		}
		if r.cause > 0 {
			r.causes[name{id, a.Name}] = r.cause
		}
	case decide.Assemble:
		if !r.asm.put(doc{run: id, name: a.Name, text: a.Doc}) {
			return decide.Refused{Name: a.Name, After: fullAgain}
		}
		if r.cause > 0 {
			r.causes[name{id, a.Name}] = r.cause
		}
	case decide.Start:
		return r.start(id, m, a, out)
	case decide.Read:
		if r.values.read == nil || !r.values.put(values{id, a.Name, a.Files}) {
			return decide.Refused{Name: a.Name, After: fullAgain}
		}
	case decide.GoOn:
		return r.goOn(id, a, out)
	case decide.Await:
		r.known(a.Job, name{id, a.Name})
		if r.t.View(func(st *state.State) { _, there = st.Job(a.Job) }); !there {
			r.ended = append(r.ended, end{job: a.Job}) // it was forgotten
		}
	case decide.Conclude:
		r.t.Conclude(a.Job)
	case decide.StopJob:
		r.t.StopJob(a.Job)
	case decide.End:
		out.ends = append(out.ends, event.StepEnd{
			Step: a.Step, Index: a.Index, Try: a.Try, Round: a.Round, State: a.State, Reason: a.Reason, Final: a.Final, Lost: a.Lost, Kept: a.Kept, Disputed: a.Disputed, Outputs: a.Outputs,
		})
	case decide.Stop:
		out.last = append(out.last, r.draft(event.KindFlowStopped, event.WorkflowStopped{
			Run: id, Round: a.Round, Actor: holder, Cause: a.Cause, Reason: a.Reason, Now: a.Now,
		}))
	case decide.Finish:
		out.last = append(out.last, r.draft(event.KindFlowDone, event.WorkflowDone{Run: id, Round: a.Round, State: a.State, Reason: a.Reason}))
		delete(r.open, id)
		r.fresh, r.queue = append(r.fresh, r.queue...), nil // another may have its place
		r.log.Info().Str("run", string(id)).Str("state", string(a.State)).Str("reason", a.Reason).Msg("workflow ended")
	}
	return nil
}

func (r *Runs) start(id flow.RunID, m *decide.Machine, a decide.Start, out *gathered) decide.Event {
	var part *job.Span
	if a.Part != nil {
		if part = &a.Part.Span; !r.cut(&a.Spec, *a.Part) {
			return decide.Gone{Name: a.Name}
		}
	}
	jobID := job.NewID(m.Owner(), a.Spec.Key)
	err := r.t.Submit(event.JobSubmitted{Job: jobID, Spec: a.Spec, Owner: m.Owner(), Chunks: a.Spec.Chunks()})
	if refusal, ok := errors.AsType[*fair.Refusal](err); ok {
		return decide.Refused{Name: a.Name, After: max(refusal.After, fullAgain)}
	}
	if errors.Is(err, ErrLater) {
		return decide.Refused{Name: a.Name, After: refusedAgain}
	}
	if err != nil {
		return decide.Rejected{Name: a.Name, Reason: clip(err.Error())}
	}
	out.starts = append(out.starts, event.StepStart{Step: a.Step, Index: a.Index, Round: a.Round, Try: a.Try, Job: jobID, Provider: a.Provider, Part: part})
	r.known(jobID, name{id, a.Name}) // it may have been submitted before
	if r.cause > 0 {
		r.t.Released(jobID, r.cause)
	}
	return nil
}

// cut makes a spec that of some chunks of a job; false: nobody knows which these are.
func (r *Runs) cut(spec *job.Spec, p decide.Part) (known bool) {
	var j state.Job
	r.t.View(func(st *state.State) { j, known = st.Job(p.Of) })
	if !known || p.Span.Last >= j.Chunks || p.Files > 0 && p.Files != j.Chunks {
		return false
	}
	first, _ := j.Spec.ChunkRange(p.Span.First)
	last, n := j.Spec.ChunkRange(p.Span.Last)
	spec.FirstIteration, spec.Iterations, spec.Chunk, spec.ChunkAuto, spec.RetryOf = first, last+n-first, j.Spec.Chunk, false, p.Of
	spec.Chunk, spec.EarlyStop = min(spec.Chunk, spec.Iterations), job.EarlyStop{} // which judged the whole
	return true
}

// goOn has a try go on with the job of an earlier one.
func (r *Runs) goOn(id flow.RunID, a decide.GoOn, out *gathered) decide.Event {
	var j state.Job
	there := false
	r.t.View(func(st *state.State) { j, there = st.Job(a.Job) })
	open := !j.State.Final()
	if !there || !open && j.State != job.Completed && (j.State != job.Partial || !a.Partial) {
		return decide.Gone{Name: a.Name}
	}
	if open {
		delete(r.holds.why, a.Job)
		r.t.Release(a.Job)
	}
	out.starts = append(out.starts, event.StepStart{Step: a.Step, Index: a.Index, Round: a.Round, Try: a.Try, Job: a.Job})
	r.known(a.Job, name{id, a.Name})
	return nil
}

// known takes in that a job is that of a try, which may be over, or wait, for long.
func (r *Runs) known(id job.ID, n name) {
	r.jobs[id] = n
	over := false
	r.t.View(func(st *state.State) {
		j, ok := st.Job(id)
		over = ok && j.State.Final()
	})
	if over {
		r.ended = append(r.ended, end{job: id})
	} else if _, held := r.holds.why[id]; held {
		r.holds.news = append(r.holds.news, id)
	}
}

// write puts what was gathered into the batch, each event of a bounded size.
func (r *Runs) write(id flow.RunID, out *gathered) {
	for len(out.ends) > 0 {
		n, size := 0, 0
		for n < len(out.ends) && n < maxEntries && size < maxEnds {
			for name, v := range out.ends[n].Outputs {
				size += len(name) + len(v)
			}
			size += len(out.ends[n].Reason)
			n++
		}
		r.t.Draft(r.draft(event.KindStepsEnded, event.StepsEnded{Run: id, Ends: out.ends[:n:n]}))
		out.ends = out.ends[n:]
	}
	for len(out.starts) > 0 {
		n := min(len(out.starts), maxEntries)
		r.t.Draft(r.draft(event.KindStepsStarted, event.StepsStarted{Run: id, Starts: out.starts[:n:n]}))
		out.starts = out.starts[n:]
	}
	for _, d := range out.last {
		r.t.Draft(d)
	}
}

// maxEnds bounds the outputs and reasons in one event, but for the last end in it, in
// bytes.
const maxEnds = 512 << 10

func (r *Runs) draft(kind event.Kind, body any) event.Draft {
	return event.Draft{Term: r.t.ID(), Kind: kind, Body: body}
}

// sweep forgets runs that ended long ago.
func (r *Runs) sweep(now time.Duration) {
	if r.swept != 0 && now-r.swept < sweepEvery {
		return
	}
	r.swept = max(now, 1)
	ends := make(endsOfRuns)
	var over []flow.RunID
	wall := r.t.Wall()
	r.t.View(func(st *state.State) {
		for _, run := range st.Flows().Runs() {
			ends.add(run)
			if !run.Open() && run.Ended.Time().Add(kept(run)).Before(wall) && len(over) < maxSweep {
				over = append(over, run.Run)
			}
		}
	})
	if len(over) > 0 {
		r.t.Draft(r.draft(event.KindFlowsForgotten, event.WorkflowsForgotten{Runs: over}))
	}
	r.concludeHeld(ends)
}

// kept is how long a run is known after its end.
func kept(run flows.Run) time.Duration {
	return cmp.Or(time.Duration(run.KeepSeconds*float64(time.Second)), job.DefaultKeep)
}

func clip(s string) string { return flow.Clip(s, cluster.MaxReason) }
