package queuebench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/skein-project/skein/bench/suite"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state"
	"github.com/skein-project/skein/eventlog/state/flows"
	decide "github.com/skein-project/skein/scheduler/flow"
	"github.com/skein-project/skein/scheduler/runs"
)

// chainWorkers have a chain, of which one piece runs at a time.
const chainWorkers = 4

// chainer is a queue whose pieces put in the next one when they are done.
type chainer interface {
	queue
	// chain runs n pieces one after the other, and says how long that took.
	chain(ctx context.Context, n int) (time.Duration, error)
}

// Workflows measures how fast a step follows another, and what deciding and remembering
// cost.
func Workflows(ctx context.Context, s *suite.Suite) (err error) {
	peers, stop, err := queuePeers(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	peers = slices.DeleteFunc(peers, func(p queuePeer) bool {
		return p.name != "asynq" && p.name != "asynq, tuned" && p.name != "river" && p.name != "river, tuned"
	})
	if err := chains(ctx, s, peers); err != nil {
		return err
	}
	s.Skip(fmt.Sprintf("chain of %d steps, a step, against Temporal", s.Size.Chain), "its development server is another program, which is not a part of this module")
	return errors.Join(ends(s), folded(s))
}

// chains compares a workflow that is a chain with the same jobs one by one, and with chains
// of the peers, all in milliseconds a step.
func chains(ctx context.Context, s *suite.Suite, peers []queuePeer) error {
	steps := s.Size.Chain
	var workflow, single, released []float64
	others := make([][]float64, len(peers))
	for round := range s.Size.Rounds + 1 {
		s.Progress("chains of %d steps, round %d of %d", steps, round, s.Size.Rounds)
		var ours, alone float64
		var each []float64
		err := suite.InTurn(round, func() (err error) {
			ours, each, err = chainOfSteps(ctx, s, steps)
			return err
		}, func() (err error) {
			alone, err = chainOfJobs(ctx, s, steps)
			return err
		})
		if err != nil {
			return err
		}
		figures := make([]float64, len(peers))
		for i, p := range peers {
			n := steps
			if p.slow || p.name == "asynq" {
				n = max(3, steps/40) // a step takes up to a second
			}
			if figures[i], err = chainOf(ctx, s, p, n); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		if round == 0 { // it warms up
			continue
		}
		workflow, single, released = append(workflow, ours), append(single, alone), append(released, each...)
		for i, v := range figures {
			others[i] = append(others[i], v)
		}
	}
	for _, d := range []struct {
		name   string
		digest func([]float64) float64
		most   float64
	}{{"p50", suite.Median, 3}, {"p99", suite.P99, 15}} {
		s.Add(suite.Series{
			Name: "workflow: end of a job to the first chunk of what waited for it, " + d.name, Unit: "ms", With: "none",
			Target: suite.Want("ours", "<=", d.most), Digest: d.digest, Ours: released,
		})
	}
	s.Add(suite.Series{
		Name: fmt.Sprintf("workflow: a step of a chain of %d, against jobs one by one", steps), Unit: "ms",
		With: "the same jobs, each submitted when the one before has ended", Target: suite.Want("ratio", "<=", 1.2), Digest: suite.Median, Ours: workflow, Peer: single,
	})
	for i, p := range peers {
		s.Add(suite.Series{
			Name: fmt.Sprintf("chain of %d steps, a step, against %s", steps, p.name), Unit: "ms", With: p.with + "; each piece puts in the next one",
			Target: suite.Want("ratio", "<=", 1), Digest: suite.Median, Ours: workflow, Peer: others[i],
		})
	}
	return nil
}

// withChunks opens a holder with a few workers.
func withChunks(ctx context.Context, s *suite.Suite, f func(*chunkQueue) error) (err error) {
	dir, err := os.MkdirTemp(s.Dir, "queue-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	q, err := openChunks(ctx, dir, chainWorkers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	return f(q.(*chunkQueue)) //nolint:errcheck,forcetypeassert // as openChunks makes it
}

func stepJob() job.Spec { return job.Spec{Artefact: cluster.Hash{1}, Iterations: 1000, Chunk: 1000} }

// chainOfSteps runs a workflow that is a chain, and says how long a step took, and how long
// it was from the end of each job on the disk to the next chunk at a worker.
func chainOfSteps(ctx context.Context, s *suite.Suite, n int) (each float64, released []float64, err error) {
	def := flow.Def{Steps: make([]flow.Step, n)}
	for i := range def.Steps {
		def.Steps[i] = flow.Step{Name: fmt.Sprintf("s%d", i), Job: stepJob()}
		if i > 0 {
			def.Steps[i].After = []string{def.Steps[i-1].Name}
		}
	}
	text, err := def.Encode()
	if err != nil {
		return 0, nil, err
	}
	b := event.WorkflowSubmitted{Run: flow.NewRunID("bench", "chain"), Owner: "bench", Def: text, Params: json.RawMessage("{}")}
	err = withChunks(ctx, s, func(q *chunkQueue) error {
		seen, over := make(chan time.Time, n), make(chan time.Time, n)
		for _, w := range q.workers {
			w.Seen.Store(&seen)
		}
		q.holder.Log.Ended.Store(&over)
		began := time.Now()
		if _, err := q.holder.Flow(ctx, runs.Request{Submit: &b}); err != nil {
			return err
		}
		if err := q.until(ctx, func(st *state.State) bool { return len(st.Flows().Open()) == 0 }); err != nil {
			return err
		}
		each = suite.Ms(time.Since(began)) / float64(n)
		<-seen // nothing released the first
		for range n - 1 {
			ended := <-over
			released = append(released, suite.Ms((<-seen).Sub(ended)))
		}
		return nil
	})
	return each, released, err
}

// until waits until the log says so.
func (q *chunkQueue) until(ctx context.Context, ok func(*state.State) bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		changed, is := q.holder.Log.Changed(), false
		q.holder.Log.View(func(st *state.State) { is = ok(st) })
		if is {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// chainOfJobs has somebody submit each job when the one before has ended.
func chainOfJobs(ctx context.Context, s *suite.Suite, n int) (each float64, err error) {
	err = withChunks(ctx, s, func(q *chunkQueue) error {
		began := time.Now()
		for i := range n {
			if err := q.holder.Queue(ctx, "bench", 1); err != nil {
				return err
			}
			id := job.NewID("bench", fmt.Sprintf("job-%d", i+1))
			if err := q.until(ctx, func(st *state.State) bool { j, ok := st.Job(id); return ok && j.State.Final() }); err != nil {
				return err
			}
		}
		each = suite.Ms(time.Since(began)) / float64(n)
		return nil
	})
	return each, err
}

func chainOf(ctx context.Context, s *suite.Suite, p queuePeer, n int) (each float64, err error) {
	dir, err := os.MkdirTemp(s.Dir, "queue-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	q, err := p.open(ctx, dir, chainWorkers)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	c, ok := q.(chainer)
	if !ok {
		return 0, errors.New("it has no chains")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	took, err := c.chain(ctx, n)
	return suite.Ms(took) / float64(n), err
}

// wide is a run of so many instances in four steps.
func wide(instances int) (flow.Def, flows.Run, error) {
	items, err := json.Marshal(make([]int, instances/4))
	if err != nil {
		return flow.Def{}, flows.Run{}, err
	}
	var d flow.Def
	for i := range 4 {
		d.Steps = append(d.Steps, flow.Step{Name: fmt.Sprintf("s%d", i), Each: items, MaxParallel: flow.MaxInstances, Job: stepJob()})
	}
	text, err := d.Encode()
	b := event.WorkflowSubmitted{Run: flow.NewRunID("bench", "wide"), Owner: "bench", Def: text, Params: json.RawMessage("{}")}
	return d, flows.Run{WorkflowSubmitted: b, State: flow.Running}, err
}

// ends measures how fast ends of jobs are decided about.
func ends(s *suite.Suite) error {
	var rates []float64
	for range s.Size.Rounds {
		d, run, err := wide(s.Size.Instances)
		if err != nil {
			return err
		}
		g, err := decide.Compile(d, nil)
		if err != nil {
			return err
		}
		m := decide.New(g, run, 0, time.Now())
		var names []decide.Name
		take := func(list []decide.Action) {
			for _, a := range list {
				if start, ok := a.(decide.Start); ok {
					names = append(names, start.Name)
				}
			}
		}
		take(m.Step(decide.Begin{}, 0))
		for len(names) < s.Size.Instances {
			before := len(names)
			if take(m.Step(decide.Tick{}, 0)); len(names) == before {
				return fmt.Errorf("%d of %d instances began", before, s.Size.Instances)
			}
		}
		began := time.Now()
		for _, n := range names {
			m.Step(decide.JobEnded{Name: n, State: job.Completed}, 0)
		}
		if _, over := m.Ends(); !over {
			return errors.New("the run has not ended")
		}
		rates = append(rates, float64(len(names))/time.Since(began).Seconds())
	}
	s.Add(suite.Series{
		Name: fmt.Sprintf("workflow: ends of jobs decided about, run of %d instances", s.Size.Instances), Unit: "ends/s", With: "none",
		Target: suite.Want("ours", ">=", 200_000), Digest: suite.Median, Ours: rates,
	})
	return nil
}

// folded measures what the state of the log keeps of each instance, whose start and end
// are in events of 512.
func folded(s *suite.Suite) error {
	const together = 512
	var sizes []float64
	for range s.Size.Rounds {
		_, run, err := wide(s.Size.Instances)
		if err != nil {
			return err
		}
		var list []event.Event
		add := func(kind event.Kind, body any) {
			var text []byte
			if text, err = json.Marshal(body); err != nil {
				return
			}
			n := uint64(len(list) + 1)
			list = append(list, event.Event{Source: event.SourceID{Node: "a", Inc: 1}, Seq: n, HLC: cluster.NewHLC(time.Now(), 0) + cluster.HLC(n), Term: 1, Kind: kind, Body: text})
		}
		add(event.KindFlowSubmitted, run.WorkflowSubmitted)
		for from := 0; from < s.Size.Instances; from += together {
			started, ended := event.StepsStarted{Run: run.Run}, event.StepsEnded{Run: run.Run}
			for i := from; i < min(from+together, s.Size.Instances); i++ {
				step, index := fmt.Sprintf("s%d", i%4), i/4
				started.Starts = append(started.Starts, event.StepStart{Step: step, Index: index, Try: 1, Job: flow.JobOf("bench", run.Run, step, index, 1)})
				ended.Ends = append(ended.Ends, event.StepEnd{Step: step, Index: index, Try: 1, State: flow.Completed, Outputs: map[string]json.RawMessage{"mean": json.RawMessage("3.141592653589793")}})
			}
			add(event.KindStepsStarted, started)
			add(event.KindStepsEnded, ended)
		}
		if err != nil {
			return err
		}
		before := heap()
		f := flows.New()
		for _, e := range list {
			e.Body = slices.Clone(e.Body) // as it comes from the log
			if about, ok := f.Apply(&e); !about || !ok {
				return fmt.Errorf("%s is not folded", e.Kind)
			}
		}
		sizes = append(sizes, (heap()-before)/float64(s.Size.Instances))
		runtime.KeepAlive(f)
		runtime.KeepAlive(list)
	}
	s.Add(suite.Series{
		Name: fmt.Sprintf("workflow: memory of the fold for each of %d instances", s.Size.Instances), Unit: "B", With: "none",
		Target: suite.Want("ours", "<=", 1536), Digest: suite.Median, Ours: sizes,
	})
	return nil
}

// heap is what is alive.
func heap() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
