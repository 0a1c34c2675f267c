package flow

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/flows"
)

const (
	// burst is how many tries one event begins; the others follow with the next tick.
	burst = 256
	// usualParallel is how many instances of a step run at once that does not say it.
	usualParallel = 512
	never         = time.Duration(math.MaxInt64)
)

// Machine decides about one run. See Step.
type Machine struct {
	g     *Graph
	run   flows.Run // without its tries
	steps []step
	open  int // steps that have not ended
	plain int // of these, those that are no teardown

	ending  ending
	over    bool
	failure string // the first
	all     int    // instances
	remakes map[place]*remake
	due     map[place]*providing // to be asked for again
	held    held
	clock   clock
	turn    turn
}

// ending is what is known of the end of a run.
type ending struct {
	stopping bool
	cause    flow.Cause
	now      bool // its teardown is to end as well
}

// clock is when something is due by itself.
type clock struct {
	deadline time.Duration // when the run is stopped
	cleaned  time.Duration // when its teardown has to be over; never: it has not begun
}

// turn is what one event leads to.
type turn struct {
	now     time.Duration
	out     []Action
	settled []int // steps that ended, whose followers were not looked at
	budget  int
}

// step is how a step is getting on.
type step struct {
	state   flow.State
	reason  string
	items   []any // nil: there is one instance, without an item
	inst    []instance
	queue   []int         // instances that may begin
	later   []int         // those that wait for their time
	soonest time.Duration // of later
	running int
	left    int                // instances that have not ended
	ended   map[flow.State]int // the others
	values  map[string]any     // of its outputs, once it has ended
	prior   map[int]*prior
	begun   bool // by the log, in this round
}

// prior is what the log says of an instance.
type prior struct {
	try     int    // the last one, of all rounds
	fails   int    // of this round
	losses  int    // of its files, in this round
	remake  remake // behind good
	kept    job.ID // with which the next try goes on
	whole   job.ID // that left what good has, all of it
	good    *flows.Try
	running *flows.Try
	bad     *flows.Try    // the last of this round, if it ended as a failure
	endedAt time.Duration // of bad
}

// instance is how an instance is getting on.
type instance struct {
	state   flow.State // Blocked: not looked at; Ready, Running, or how it ended
	try     int        // the last one
	fails   int
	job     job.ID // of that try, once it was asked for
	ready   time.Duration
	looking bool   // for its files
	held    *End   // how its job ended, while they are looked for
	losses  int    // of them
	kept    job.ID // of an earlier try, with which the next one goes on
	// provider is the job of that of the last try, once it was asked for; prov how that is
	// getting on, while it does.
	provider job.ID
	prov     *providing
	disputed bool // what came of it
	reason   string
	outputs  map[string]json.RawMessage
}

// New makes the Machine of a run. wall is the time of the log's clocks at now.
func New(g *Graph, run flows.Run, now time.Duration, wall time.Time) *Machine {
	m := &Machine{g: g, run: run, open: len(g.nodes), steps: make([]step, len(g.nodes)), remakes: make(map[place]*remake), due: make(map[place]*providing), clock: clock{never, never}}
	m.run.Tries = nil
	since := func(at cluster.HLC) time.Duration { return now - max(0, wall.Sub(at.Time())) }
	began := max(run.Submitted, run.RetriedAt)
	if s := g.Def.TimeoutSeconds; s > 0 {
		m.clock.deadline = since(began) + seconds(s)
	}
	for i := range m.steps {
		m.steps[i] = step{state: flow.Blocked, soonest: never, ended: make(map[flow.State]int), prior: make(map[int]*prior)}
		if g.nodes[i].Role != flow.RoleTeardown {
			m.plain++
		}
	}
	for k := range run.Tries {
		m.recall(&run.Tries[k], since)
	}
	if run.Stop != nil {
		m.ending = ending{stopping: true, cause: run.Stop.Cause, now: run.Now != nil}
		if run.Stop.Cause == flow.StopFailure {
			m.failure = run.Stop.Reason
		}
		m.clock.cleaned = since(run.StoppedAt) + m.g.teardownTime()
	}
	return m
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (g *Graph) teardownTime() time.Duration {
	if s := g.Def.TeardownSeconds; s > 0 {
		return seconds(s)
	}
	return flow.DefaultTeardown * time.Second
}

// recall takes in what the log says of a try; those of an instance come in order.
func (m *Machine) recall(t *flows.Try, since func(cluster.HLC) time.Duration) {
	i, ok := m.g.byName[t.Step]
	if !ok {
		return // no definition of ours
	}
	p := m.steps[i].prior[t.Index]
	if p == nil {
		p = &prior{}
		m.steps[i].prior[t.Index] = p
	}
	p.try = max(p.try, t.Try)
	m.steps[i].begun = m.steps[i].begun || t.Round == m.run.Round
	if p.kept = ""; t.End != nil && t.End.Kept {
		if p.kept = t.Job; !m.g.counts(m.run.From, i, t.Round) {
			m.held.orphan = append(m.held.orphan, kept{Name{Step: t.Step, Index: t.Index, Try: t.Try}, t.Job})
			p.kept = ""
		}
	}
	if t.End != nil {
		m.held.bytes += large(t.End.Outputs)
	}
	switch {
	case t.End != nil && m.g.nodes[i].good(t.End.State):
		if m.g.counts(m.run.From, i, t.Round) {
			if p.good != nil && t.Round == m.run.Round {
				p.remake.made++
			}
			if p.good, p.remake.on, p.remake.fails = t, false, 0; t.Part == nil {
				p.whole = t.Job
			}
		}
	case t.Round != m.run.Round:
	case p.good != nil:
		restoring(m).recallRemake(i, p, t)
	case t.End != nil && t.End.Lost:
		p.losses++
		p.running = nil
	case t.End == nil:
		p.running, p.bad = t, nil
	default:
		p.running, p.bad, p.endedAt = nil, t, since(t.Ended)
		p.fails++
		if m.failure == "" && (t.End.Final || p.fails > m.g.nodes[i].Retry.Times) && m.g.nodes[i].failureOf() != flow.FailureIgnore {
			m.failure = m.g.nodes[i].because(t.End.State, t.End.Reason)
		}
	}
}

// counts reports whether what a step completed in a round was not begun again since, from
// those steps.
func (g *Graph) counts(begun []string, i, round int) bool {
	for r, from := range begun {
		if r+1 <= round || from == "" {
			continue
		}
		if at, ok := g.byName[from]; ok && (at == i || g.nodes[i].above[at]) {
			return false
		}
	}
	return true
}

// good reports whether an instance that ended so is no failure.
func (n *node) good(s flow.State) bool {
	return s == flow.Completed || s == flow.Partial && n.AcceptPartial
}

// Ends reports whether the run is to end, and whether it has.
func (m *Machine) Ends() (stopping, over bool) { return m.ending.stopping, m.over }

// Owner is whose the run is.
func (m *Machine) Owner() string { return m.run.Owner }

// Next is when something is due by itself, if there is anything.
func (m *Machine) Next(now time.Duration) (at time.Duration, ok bool) {
	if m.over {
		return 0, false
	}
	at = never
	if !m.ending.now {
		at = m.clock.cleaned
	}
	if !m.ending.stopping {
		at = min(at, m.clock.deadline)
	}
	for _, r := range m.remakes {
		if !r.on {
			at = min(at, r.due)
		}
	}
	for _, p := range m.due {
		at = min(at, p.due)
	}
	for i := range m.steps {
		if s := &m.steps[i]; len(s.queue) > 0 && s.running < m.g.nodes[i].parallel() {
			at = min(at, now)
		} else if len(s.later) > 0 {
			at = min(at, s.soonest)
		}
	}
	return at, at != never
}

// Step takes in one event and says what follows from it. What has no meaning any more
// changes nothing.
func (m *Machine) Step(e Event, now time.Duration) []Action {
	if m.over {
		return nil
	}
	m.turn = turn{now: now, budget: burst}
	switch e := e.(type) {
	case Begin:
		for _, k := range m.held.orphan {
			m.do(StopJob{Name: k.Name, Job: k.job})
		}
		m.held.orphan = nil
		for _, i := range m.g.order {
			m.consider(i)
		}
	case Tick:
		m.expire()
	case JobEnded:
		m.jobEnded(e)
	case JobHeld:
		m.jobHeld(e)
	case Located:
		restoring(m).located(e)
	case Values:
		if i, in := m.find(e.Name); in != nil && e.Provider {
			providers(m).provided(i, e)
		}
	case Gone:
		if i, in := m.find(e.Name); in != nil && in.kept != "" {
			in.kept, in.job = "", ""
			m.prepare(i, e.Index, e.Name)
		} else if p, r := restoring(m).remakeOf(e.Name); r != nil && r.part != nil {
			r.part, r.chunks, r.job = nil, nil, ""
			m.prepare(p.step, p.index, e.Name)
		}
	case Assembled:
		if i, in := m.find(e.Name); in != nil && e.Provider {
			providers(m).start(i, e)
		} else if in != nil && in.job == "" {
			m.start(i, e.Index, e.Name, e.Config)
		} else if p, r := restoring(m).remakeOf(e.Name); r != nil && r.job == "" {
			m.start(p.step, p.index, e.Name, e.Config)
		}
	case Refused:
		if i, in := m.find(e.Name); in != nil && e.Provider {
			providers(m).putOff(i, e.Index, e.After)
		} else if in != nil {
			m.putOff(i, e.Index, e.After)
		} else if p, r := restoring(m).remakeOf(e.Name); r != nil {
			restoring(m).remakeOff(p, r, e.After)
		}
	case Rejected:
		m.cannot(e.Name, e.Reason)
	case Stopped:
		m.stop(flow.StopAsked, e.Reason, e.Now, false)
	}
	m.settle()
	out := m.turn.out
	m.turn = turn{}
	return out
}

// cannot ends a try that can never be.
func (m *Machine) cannot(n Name, reason string) {
	end := End{State: flow.Failed, Reason: reason, Final: true}
	if i, in := m.find(n); in != nil {
		m.end(i, n.Index, end)
	} else if p, r := restoring(m).remakeOf(n); r != nil {
		restoring(m).remade(p, r, end, nil)
	}
}

// putOff has a try begin later that was asked for. One that has ended has, whatever became
// of its files.
func (m *Machine) putOff(i, k int, after time.Duration) {
	in := &m.steps[i].inst[k]
	held := in.held
	if in.looking, in.held = false, nil; held != nil {
		m.tried(i, k, *held)
		return
	}
	m.steps[i].running--
	if m.halted(i) {
		m.close(i, k, flow.Cancelled)
		return
	}
	in.state, in.job, in.ready = flow.Ready, "", m.turn.now+after
	in.try--
	m.wait(i, k)
}

// find returns the instance that runs under a name.
func (m *Machine) find(n Name) (i int, in *instance) {
	i, ok := m.g.byName[n.Step]
	if !ok || n.Index < 0 || n.Index >= len(m.steps[i].inst) {
		return 0, nil
	}
	in = &m.steps[i].inst[n.Index]
	if in.state != flow.Running || in.try != n.Try || (in.prov != nil) != n.Provider {
		return 0, nil
	}
	return i, in
}

func (m *Machine) do(a Action) { m.turn.out = append(m.turn.out, a) }

// expire does what time asks for.
func (m *Machine) expire() {
	now := m.turn.now
	if !m.ending.stopping && now >= m.clock.deadline {
		m.stop(flow.StopTimeout, "its timeout_seconds are over", false, true)
	}
	if now >= m.clock.cleaned && !m.ending.now {
		m.stop(flow.StopTeardown, "its teardown_seconds are over", true, true)
	}
	for _, i := range m.g.order {
		s := &m.steps[i]
		if len(s.later) > 0 && s.soonest <= now {
			m.wake(i)
		}
		m.pump(i)
	}
	restoring(m).startRemakes()
	providers(m).again()
}

// wake lets the instances begin whose time has come.
func (m *Machine) wake(i int) {
	s := &m.steps[i]
	s.soonest = never
	s.later = slices.DeleteFunc(s.later, func(k int) bool {
		in := &s.inst[k]
		if in.state != flow.Ready {
			return true
		}
		if in.ready <= m.turn.now {
			s.queue = append(s.queue, k)
			return true
		}
		s.soonest = min(s.soonest, in.ready)
		return false
	})
}

// wait puts an instance where it begins at its time.
func (m *Machine) wait(i, k int) {
	s := &m.steps[i]
	s.later = append(s.later, k)
	s.soonest = min(s.soonest, s.inst[k].ready)
}

func (n *node) parallel() int {
	if n.MaxParallel > 0 {
		return n.MaxParallel
	}
	return usualParallel
}

// pump begins what may begin of a step.
func (m *Machine) pump(i int) {
	s := &m.steps[i]
	if m.halted(i) {
		s.queue = nil // see haltStep
	}
	for len(s.queue) > 0 && s.running < m.g.nodes[i].parallel() && m.turn.budget > 0 && !s.state.Final() {
		k := s.queue[0]
		s.queue = s.queue[1:]
		if s.inst[k].state != flow.Ready {
			continue
		}
		m.turn.budget--
		m.begin(i, k)
	}
}

// begin begins the next try at an instance.
func (m *Machine) begin(i, k int) {
	s := &m.steps[i]
	in := &s.inst[k]
	in.state, in.try, in.job, in.reason, in.provider, in.prov = flow.Running, in.try+1, "", "", "", nil
	s.state = flow.Running
	s.running++
	if in.looking = restoring(m).locate(i, m.name(i, k), false); !in.looking {
		m.prepare(i, k, m.name(i, k))
	}
}

// prepare makes the config document of a try, or starts it where it has none.
func (m *Machine) prepare(i, k int, as Name) {
	n := &m.g.nodes[i]
	if in := &m.steps[i].inst[k]; in.kept != "" && in.state == flow.Running {
		in.job = in.kept
		m.do(GoOn{Name: as, Round: m.run.Round, Job: in.kept, Partial: n.AcceptPartial})
		return
	}
	if len(n.inputs) == 0 {
		m.start(i, k, as, n.Job.Config)
		return
	}
	doc, err := data{m}.document(i, k)
	if err != nil {
		m.cannot(as, err.Error())
		return
	}
	m.do(Assemble{Name: as, Doc: doc})
}

func (m *Machine) name(i, k int) Name {
	return Name{Step: m.g.nodes[i].Name, Index: k, Try: m.steps[i].inst[k].try}
}

func (m *Machine) start(i, k int, as Name, config cluster.Hash) {
	n := &m.g.nodes[i]
	spec := n.Job.WithDefaults()
	spec.Config = config
	spec.Key = flow.JobKey(m.run.Run, n.Name, k, as.Try)
	if spec.Name == "" {
		spec.Name = n.Name
	}
	if (m.run.Keeps && n.Retry.Times > 0 || m.run.Holds) && !n.AcceptPartial && spec.Partial() == job.PartialFinish {
		spec.OnPartial = job.PartialWait // see JobHeld
	}
	var err error
	if spec.Files, err = m.files(i); err == nil {
		err = spec.Validate()
	}
	if err != nil {
		m.cannot(as, err.Error())
		return
	}
	_, r := restoring(m).remakeOf(as)
	var part *Part
	if r != nil && r.part != nil {
		part, r.chunks = r.part, &r.part.Span
		spec.Key = partKey(spec.Key, part.Span)
	}
	id := job.NewID(m.run.Owner, spec.Key)
	if r != nil {
		r.job = id
	} else {
		m.steps[i].inst[k].job = id
	}
	m.do(Start{Name: as, Round: m.run.Round, Spec: spec, Part: part})
}

// jobEnded takes in how the job of a try ended.
func (m *Machine) jobEnded(e JobEnded) {
	i, in := m.find(e.Name)
	p, r := restoring(m).remakeOf(e.Name)
	switch {
	case in != nil && e.Provider:
		providers(m).jobEnded(i, e)
		return
	case in != nil && in.job != "" && !in.looking:
	case r != nil && r.job != "":
		i = p.step
	default:
		return
	}
	end := End{State: flow.OfJob(e.State), Reason: e.Reason, Disputed: e.Result != nil && e.Result.Disputed > 0}
	if m.g.nodes[i].good(end.State) && (in != nil || r.chunks == nil) {
		outputs, err := m.g.nodes[i].outputsOf(e.Result, e.Left)
		if err != nil {
			end.State, end.Reason, end.Final = flow.Failed, err.Error(), true
		}
		end.Outputs = outputs
	}
	switch {
	case in == nil:
		restoring(m).remade(p, r, end, e.Left)
	case m.g.nodes[i].Provider != nil && m.g.nodes[i].good(end.State):
		providers(m).begin(i, e.Index, end, e.Result, e.Left)
	default:
		m.lookFirst(i, e.Name, end)
	}
}

// lookFirst ends a try, once it is known that it did not fail for want of a file.
func (m *Machine) lookFirst(i int, as Name, e End) {
	in := &m.steps[i].inst[as.Index]
	if slices.Contains(retryable, e.State) && !e.Final && in.losses < maxLost && !m.halted(i) && restoring(m).locate(i, as, true) {
		in.looking, in.held = true, &e
		return
	}
	m.tried(i, as.Index, e)
}

// end ends the running try at an instance, which is tried again if it may be.
func (m *Machine) end(i, k int, e End) {
	s, n := &m.steps[i], &m.g.nodes[i]
	in := &s.inst[k]
	e.Name, e.Round, e.Reason = m.name(i, k), m.run.Round, clip(e.Reason)
	m.do(e)
	s.running--
	in.reason, in.prov, in.disputed = e.Reason, nil, e.Disputed
	if in.job == "" {
		m.dropKept(i, k)
	}
	if in.kept = ""; e.Kept {
		in.kept = in.job
	}
	good := n.good(e.State)
	if !good && !e.Lost {
		in.fails++
	}
	if !good && (e.Lost && !m.halted(i) || !e.Lost && m.again(i, in.fails, e.State, e.Final)) {
		in.state, in.ready = flow.Ready, m.turn.now
		if !e.Lost {
			in.ready += seconds(n.Retry.BackoffSeconds)
		}
		m.wait(i, k)
		if in.ready <= m.turn.now {
			m.wake(i)
		}
	} else {
		in.outputs = e.Outputs
		m.close(i, k, e.State)
	}
	m.pump(i)
}

// again reports whether an instance that failed so often is tried again.
func (m *Machine) again(i, fails int, s flow.State, final bool) bool {
	return !m.halted(i) && m.g.nodes[i].again(fails, s, final)
}

func (n *node) again(fails int, s flow.State, final bool) bool {
	switch {
	case final, fails > n.Retry.Times:
		return false
	case len(n.Retry.On) > 0:
		return slices.Contains(n.Retry.On, string(s))
	}
	return slices.Contains(retryable, s)
}

// halted reports whether nothing of a step is to begin any more.
func (m *Machine) halted(i int) bool {
	return m.ending.stopping && (m.ending.now || m.g.nodes[i].Role != flow.RoleTeardown)
}

// close ends an instance for this round.
func (m *Machine) close(i, k int, state flow.State) {
	s := &m.steps[i]
	switch s.inst[k].state = state; {
	case m.g.nodes[i].good(state) || s.inst[k].kept == "":
	case m.run.Holds && state != flow.Cancelled:
		m.held.n++ // a retry of the run goes on with it
	default:
		m.dropKept(i, k)
	}
	s.ended[state]++
	if s.left--; s.left == 0 {
		m.finishStep(i)
	}
}

// worst are the ends of instances, the worst first.
var worst = []flow.State{flow.Failed, flow.TimedOut, flow.Cancelled, flow.Partial}

// finishStep ends a step all of whose instances have ended.
func (m *Machine) finishStep(i int) {
	s := &m.steps[i]
	for _, state := range worst {
		if s.ended[state] == 0 {
			continue
		}
		reason := ""
		if !m.g.nodes[i].good(state) {
			k := slices.IndexFunc(s.inst, func(in instance) bool { return in.state == state })
			reason = s.inst[k].reason
		}
		m.closeStep(i, state, reason)
		return
	}
	m.closeStep(i, flow.Completed, "")
}

// closeStep ends a step.
func (m *Machine) closeStep(i int, state flow.State, reason string) {
	s, n := &m.steps[i], &m.g.nodes[i]
	s.state, s.reason = state, reason
	s.queue, s.later, s.prior = nil, nil, nil
	m.open--
	if n.Role != flow.RoleTeardown {
		m.plain--
	}
	m.turn.settled = append(m.turn.settled, i)
	defer weigh(m)
	if !m.failed(i) || m.ending.stopping {
		return
	}
	if m.failure == "" && n.failureOf() != flow.FailureIgnore {
		m.failure = m.g.nodes[i].because(state, reason)
	}
	if n.failureOf() == flow.FailureStop {
		m.stop(flow.StopFailure, m.g.nodes[i].because(state, reason), false, true)
	}
}

func (n *node) because(state flow.State, reason string) string {
	out := "step " + n.Name + ": " + string(state)
	if reason != "" {
		out += ": " + reason
	}
	return clip(out)
}

// failed reports whether a step has ended as a failure.
func (m *Machine) failed(i int) bool {
	s := m.steps[i].state
	return s.Ended() && !m.g.nodes[i].good(s)
}

// settle looks at all that waits for steps that have ended, until none is left, and ends
// the run behind the last one.
func (m *Machine) settle() {
	for len(m.turn.settled) > 0 {
		i := m.turn.settled[0]
		m.turn.settled = m.turn.settled[1:]
		for _, next := range m.g.nodes[i].next {
			m.consider(next)
		}
	}
	if m.plain == 0 && m.open > 0 && m.clock.cleaned == never {
		m.clock.cleaned = m.turn.now + m.g.teardownTime()
	}
	if m.open == 0 && !m.over {
		m.over = true
		restoring(m).haltRemakes(-1)
		state, reason := m.result()
		m.do(Finish{Round: m.run.Round, State: state, Reason: reason})
	}
}

// result is how the run ends.
func (m *Machine) result() (flow.State, string) {
	state, why := flow.Completed, ""
	if m.run.Stop != nil {
		why = m.run.Stop.Reason
	}
	for i := range m.steps {
		switch {
		case !m.failed(i):
		case m.g.nodes[i].failureOf() == flow.FailureIgnore:
			if state == flow.Completed {
				state = flow.Partial
			}
		default:
			state = flow.Failed
		}
	}
	if done, _ := completed(m); m.g.Def.Quorum > 0 && done >= m.g.Def.Quorum && (!m.ending.stopping || m.ending.cause == flow.StopQuorum) {
		return flow.Completed, ""
	}
	switch {
	case !m.ending.stopping:
	case m.ending.cause == flow.StopAsked:
		return flow.Cancelled, why
	case m.ending.cause == flow.StopTimeout:
		return flow.TimedOut, why
	case m.ending.cause == flow.StopFailure:
		state = flow.Failed
	}
	if state == flow.Failed {
		return state, cmp.Or(m.failure, why)
	}
	return state, ""
}

// stop begins to end the run, or with now its teardown; own says that this is the
// Machine's own decision.
func (m *Machine) stop(cause flow.Cause, reason string, now, own bool) {
	if m.ending.stopping && (m.ending.now || !now) {
		return
	}
	if own {
		m.do(Stop{Round: m.run.Round, Cause: cause, Reason: reason, Now: now})
	}
	if !m.ending.stopping {
		m.ending.stopping, m.ending.cause = true, cause
		m.run.Stop = &event.WorkflowStopped{Reason: reason, Cause: cause}
		m.clock.cleaned = m.turn.now + m.g.teardownTime()
	}
	m.ending.now = m.ending.now || now
	m.halt()
}

// wasStopped is why a step was not to begin any more.
const wasStopped = "the run was stopped"

// halt ends what has not begun of a run that is to end, and stops what runs.
func (m *Machine) halt() {
	for i := range m.steps {
		s := &m.steps[i]
		if !m.halted(i) {
			continue
		}
		restoring(m).haltRemakes(i)
		if s.state.Final() {
			continue
		}
		switch {
		case s.inst != nil:
			m.haltStep(i)
		case !s.begun: // else its instances come back first: see consider
			m.closeStep(i, flow.Cancelled, wasStopped)
		}
	}
}

func (m *Machine) haltStep(i int) {
	s := &m.steps[i]
	for k := range s.inst {
		in := &s.inst[k]
		switch {
		case s.state.Final():
			return
		case in.state == flow.Running && in.prov != nil:
			providers(m).halt(i, k)
		case in.state == flow.Running && in.job != "":
			m.do(StopJob{Name: m.name(i, k), Job: in.job})
		case in.state == flow.Running:
			s.running--
			m.close(i, k, flow.Cancelled)
		case in.state == flow.Ready:
			m.close(i, k, flow.Cancelled)
		}
	}
}

func clip(s string) string { return flow.Clip(s, cluster.MaxReason) }
