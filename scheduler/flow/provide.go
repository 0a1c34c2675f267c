package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/flow/source"
	"github.com/skein-project/skein/scheduler/flow/template"
)

// providing is how the provider of a try is getting on, whose own job has ended.
type providing struct {
	end  End              // how that ended, with the outputs that are not the provider's
	doc  []byte           // what the provider is given
	due  time.Duration    // of what is to be asked for again; never: it was asked for
	left []job.OutputFile // by the provider; nil: it has not ended
}

// provider is a Machine as far as steps have providers.
type provider struct{ *Machine }

func providers(m *Machine) provider { return provider{m} }

// takeProvider checks the provider of a step.
func (n *node) takeProvider() error {
	var of []string
	for _, s := range n.outputs {
		if s.Kind == source.Provider && !slices.Contains(of, s.File) {
			of = append(of, s.File)
		}
	}
	if n.Provider == nil {
		if len(of) > 0 {
			return fmt.Errorf("an output is provider:%s, and there is no provider", of[0])
		}
		return nil
	}
	p := *n.Provider
	switch {
	case len(of) == 0:
		return errors.New("provider: no output is provider:NAME, of which it would be the source")
	case p.Iterations > 1:
		return fmt.Errorf("provider: iterations is %d, it has one", p.Iterations)
	case p.Key != "" || !p.Config.IsZero() || len(p.After) > 0 || p.RetryOf != "" || p.FirstIteration > 0:
		return errors.New("provider: key, config, after, retry_of and first_iteration are not its to say")
	case len(p.Outputs) > 0 || p.Result == job.ResultMetrics:
		return errors.New("provider: what it leaves are the files that outputs name as provider:NAME, and no metrics")
	}
	p.Key, p.Iterations, p.Chunk, p.ChunkAuto = "wf", 1, 1, false
	p.Outputs, p.Result = slices.Sorted(slices.Values(of)), job.ResultNone
	if p = p.WithDefaults(); p.Name == "" {
		p.Name = n.Name + " provider"
	}
	if err := p.Validate(); err != nil {
		return fmt.Errorf("provider: %s", strings.TrimPrefix(err.Error(), job.ErrSpec.Error()+": "))
	}
	n.provide = p
	return nil
}

// begin has the provider of a try run, on what came out of the step's own job.
func (m provider) begin(i, k int, own End, r *job.Result, left []job.OutputFile) {
	in, as := &m.steps[i].inst[k], m.name(i, k)
	if m.halted(i) {
		if in.provider != "" { // it began under another holder
			m.do(StopJob{Name: as, Job: in.provider})
		}
		m.end(i, k, End{State: flow.Cancelled, Reason: wasStopped})
		return
	}
	doc, err := m.providerDocument(i, k, r, left)
	if err != nil {
		m.cannot(as, err.Error())
		return
	}
	in.prov = &providing{end: own, doc: doc, due: never}
	as.Provider = true
	if in.provider != "" {
		m.do(Await{Name: as, Job: in.provider}) // it began under another holder
		return
	}
	m.do(Assemble{Name: as, Doc: doc})
}

// providerDocument is the config document of a provider.
func (m provider) providerDocument(i, k int, r *job.Result, left []job.OutputFile) ([]byte, error) {
	doc, err := data(m).values(i, k)
	if err != nil {
		return nil, err
	}
	files := make([]any, len(left))
	for n, f := range left {
		files[n] = map[string]any{"chunk": f.Chunk, "name": f.Name, "hash": f.Hash, "size": f.Size}
	}
	doc["outputs"] = files
	for _, kind := range []string{source.Aggregate, source.Skipped} {
		if doc[kind], err = (source.Source{Kind: kind}).Of(r, nil); err != nil {
			return nil, err
		}
	}
	return encode(doc)
}

// start submits the job of a provider whose document is stored.
func (m provider) start(i int, e Assembled) {
	in := &m.steps[i].inst[e.Index]
	if in.provider != "" || in.prov.left != nil {
		return
	}
	spec := m.g.nodes[i].provide
	spec.Config, spec.Key = e.Config, flow.ProviderKey(m.run.Run, e.Step, e.Index, e.Try)
	in.provider = job.NewID(m.run.Owner, spec.Key)
	m.do(Start{Name: e.Name, Round: m.run.Round, Spec: spec})
}

// jobEnded takes in how the job of a provider ended.
func (m provider) jobEnded(i int, e JobEnded) {
	in := &m.steps[i].inst[e.Index]
	if in.provider == "" || in.prov.left != nil {
		return
	}
	if e.State != job.Completed {
		reason := "provider: " + string(e.State)
		if e.Reason != "" {
			reason = "provider: " + e.Reason
		}
		state := flow.OfJob(e.State)
		if state == flow.Partial { // which means nothing where there is one chunk
			state = flow.Failed
		}
		m.end(i, e.Index, End{State: state, Reason: reason, Kept: true})
		return
	}
	for _, f := range e.Left {
		if most := m.mostBytes(); f.Size > int64(most) {
			m.cannot(e.Name, fmt.Sprintf("provider: %s has %d bytes, at most %d are allowed", f.Name, f.Size, most))
			return
		}
	}
	in.prov.left = e.Left
	m.do(Read{Name: e.Name, Files: e.Left})
}

// provided takes in what a provider left.
func (m provider) provided(i int, e Values) {
	in, n := &m.steps[i].inst[e.Index], &m.g.nodes[i]
	if in.prov.left == nil || in.prov.due != never {
		return
	}
	if e.Lost {
		in.losses++
		m.end(i, e.Index, End{State: flow.Failed, Reason: inputLost + "what its provider left is on no host", Lost: in.losses <= maxLost, Kept: true})
		return
	}
	outputs := maps.Clone(in.prov.end.Outputs)
	if outputs == nil {
		outputs = make(map[string]json.RawMessage)
	}
	for name, s := range n.outputs {
		if s.Kind == source.Provider {
			v, err := template.Decode(e.Values[s.File])
			if err != nil {
				m.cannot(e.Name, fmt.Sprintf("provider: %s is no JSON: %v", s.File, err))
				return
			}
			if outputs[name], err = json.Marshal(v); err != nil {
				m.cannot(e.Name, fmt.Sprintf("provider: %s: %v", s.File, err))
				return
			}
		}
	}
	size, over := sizeOf(outputs), large(outputs)
	switch most := m.mostBytes(); {
	case size > most:
		m.cannot(e.Name, fmt.Sprintf("provider: the outputs have %d bytes, at most %d are allowed", size, most))
		return
	case over > 0 && m.held.bytes+over > flow.MaxRunBytes:
		m.cannot(e.Name, fmt.Sprintf("provider: the outputs have %d bytes, and those above %d of the whole run at most %d", size, flow.MaxValueBytes, flow.MaxRunBytes))
		return
	}
	m.held.bytes += over
	end := in.prov.end
	end.Outputs = outputs
	m.end(i, e.Index, end)
}

// mostBytes is how many bytes the outputs of an instance with a provider may have.
func (m provider) mostBytes() int {
	if m.run.Holds {
		return flow.MaxGivenBytes
	}
	return flow.MaxValueBytes // older members would not take in more
}

func sizeOf(outputs map[string]json.RawMessage) (n int) {
	for name, v := range outputs {
		n += len(name) + len(v)
	}
	return n
}

// large is the size of outputs that are larger than those without a provider may be, or 0.
func large(outputs map[string]json.RawMessage) int {
	if n := sizeOf(outputs); n > flow.MaxValueBytes {
		return n
	}
	return 0
}

// putOff has what was asked for a provider asked for again later.
func (m provider) putOff(i, k int, after time.Duration) {
	in := &m.steps[i].inst[k]
	if m.halted(i) && in.prov.left == nil {
		m.end(i, k, End{State: flow.Cancelled, Reason: wasStopped})
		return
	}
	if in.prov.left == nil {
		in.provider = ""
	}
	in.prov.due = m.turn.now + after
	m.due[place{i, k}] = in.prov
}

// again asks again for what was put off.
func (m provider) again() {
	for i := range m.steps {
		for k := range m.steps[i].inst {
			if len(m.due) == 0 {
				return
			}
			p := place{i, k}
			v := m.due[p]
			if v == nil || v.due > m.turn.now {
				continue
			}
			delete(m.due, p)
			in, as := &m.steps[i].inst[k], m.name(i, k)
			as.Provider = true
			switch {
			case in.prov != v || in.state != flow.Running:
				continue
			case v.left != nil:
				m.do(Read{Name: as, Files: v.left})
			default:
				m.do(Assemble{Name: as, Doc: v.doc})
			}
			v.due = never
		}
	}
}

// halt stops the provider of a try, if that runs.
func (m provider) halt(i, k int) {
	in, as := &m.steps[i].inst[k], m.name(i, k)
	as.Provider = true
	switch {
	case in.prov.left != nil: // it has ended
	case in.provider != "":
		m.do(StopJob{Name: as, Job: in.provider})
	default:
		m.end(i, k, End{State: flow.Cancelled, Reason: wasStopped})
	}
}
