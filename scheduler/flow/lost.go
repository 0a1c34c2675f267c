package flow

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/flow"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/eventlog/state/flows"
	"github.com/skein-project/skein/scheduler/flow/template"
)

// inputLost begins the reason of what waits for files that no host has any more.
const inputLost = "input_lost: "

// maxLost bounds how often files of one instance are computed again, and how often losses
// of its files are no failure of an instance.
const maxLost = 3

// place is an instance of a step.
type place struct{ step, index int }

// remake is how computing the files of an instance again is getting on, which has completed
// and stays so. Its tries are those of the instance, behind the one that counts.
type remake struct {
	on      bool // a try runs, or is about to
	looking bool // for its own files
	try     int
	job     job.ID
	due     time.Duration // of the next try; never: none is to begin by itself
	made    int           // tries that left the same files
	fails   int           // since then
	broken  string        // why there is no use in another
	part    *Part         // what is to be computed again; nil: all of it
	chunks  *job.Span     // what the try that runs computes; nil: all of it
	waiting []waiter
}

// waiter waits for files: an instance, or the remake of one.
type waiter struct {
	place
	remake bool
}

// restorer is a Machine as far as it has files computed again that are lost.
type restorer struct{ *Machine }

func restoring(m *Machine) restorer { return restorer{m} }

// remakeOf returns the remake that runs under a name.
func (m restorer) remakeOf(n Name) (p place, r *remake) {
	i, ok := m.g.byName[n.Step]
	if !ok || n.Provider {
		return place{}, nil
	}
	p = place{i, n.Index}
	if r = m.remakes[p]; r == nil || !r.on || r.try != n.Try {
		return place{}, nil
	}
	return p, r
}

// locate asks where the files are that other steps left for one. It reports whether there
// are any.
func (m restorer) locate(i int, n Name, fresh bool) bool {
	if len(m.g.nodes[i].Step.Files) == 0 {
		return false
	}
	own := m.g.nodes[i].Job.Files
	files, err := m.files(i)
	if err != nil {
		return false // its start says so
	}
	var of []cluster.Hash
	for name, h := range files {
		if _, uploaded := own[name]; !uploaded && !slices.Contains(of, h) {
			of = append(of, h)
		}
	}
	slices.SortFunc(of, func(a, b cluster.Hash) int { return slices.Compare(a[:], b[:]) })
	if len(of) == 0 {
		return false
	}
	m.do(Locate{Name: n, Files: of, Fresh: fresh || m.run.Round > 0}) // a retry may be for the want of them
	return true
}

// located takes in which of the files of a try are lost.
func (m restorer) located(e Located) {
	if i, in := m.find(e.Name); in != nil && in.looking {
		m.instanceLocated(i, e)
		return
	}
	p, r := m.remakeOf(e.Name)
	if r == nil || !r.looking {
		return
	}
	r.looking = false
	if len(e.Lost) == 0 {
		m.prepare(p.step, p.index, e.Name)
		return
	}
	r.on, r.try = false, r.try-1
	m.steps[p.step].inst[p.index].try--
	if why := m.wanted(waiter{p, true}, e.Lost); why != "" {
		m.breakRemake(p, r, why)
	}
}

func (m restorer) instanceLocated(i int, e Located) {
	in := &m.steps[i].inst[e.Index]
	held := in.held
	in.looking, in.held = false, nil
	switch {
	case len(e.Lost) == 0 && held == nil:
		m.prepare(i, e.Index, e.Name)
		return
	case len(e.Lost) == 0:
		m.tried(i, e.Index, *held)
		return
	case held != nil:
		held.Reason, held.Lost = m.lostReason(i, e.Lost), true
		in.losses++
		m.end(i, e.Index, *held) // the next try looks for them
		return
	}
	m.steps[i].running--
	in.try--
	in.state, in.job, in.reason = flow.Ready, "", m.lostReason(i, e.Lost)
	if m.halted(i) {
		m.close(i, e.Index, flow.Cancelled)
	} else if why := m.wanted(waiter{place{i, e.Index}, false}, e.Lost); why != "" {
		m.giveUp(i, e.Index, why)
	}
	m.pump(i)
}

// lostReason names the first file that is lost.
func (m restorer) lostReason(i int, lost []cluster.Hash) string {
	out := inputLost + "files are on no host"
	m.makers(i, lost, func(name, from string, _ place) {
		out = clip(fmt.Sprintf("%sfile %s, which is %s, is on no host", inputLost, name, from))
	})
	return out
}

// makers finds who left files that a step is given, the last first.
func (m restorer) makers(i int, lost []cluster.Hash, found func(name, from string, p place)) (all bool) {
	left := slices.Clone(lost)
	names := sortedKeys(m.g.nodes[i].Step.Files)
	slices.Reverse(names)
	for _, name := range names {
		from := m.g.nodes[i].Step.Files[name]
		step, output, _ := strings.Cut(from, ".")
		at := m.g.byName[step]
		for k := range m.steps[at].inst {
			v, err := template.Decode(m.steps[at].inst[k].outputs[output])
			if err != nil {
				continue
			}
			has, err := hashesOf(v, nil)
			if err != nil {
				continue
			}
			before := len(left)
			if left = slices.DeleteFunc(left, func(h cluster.Hash) bool { return slices.Contains(has, h) }); len(left) < before {
				found(name, from, place{at, k})
			}
		}
	}
	return len(left) == 0
}

// wanted has files computed again that something waits for, or says why that cannot be.
func (m restorer) wanted(w waiter, lost []cluster.Hash) string {
	var of []place
	if !m.makers(w.step, lost, func(_, _ string, p place) { of = append(of, p) }) {
		return m.lostReason(w.step, lost)
	}
	for _, p := range of {
		r := m.remakes[p]
		if r == nil {
			r = &remake{due: never}
			m.remakes[p] = r
		}
		switch {
		case r.on:
		case r.due == never:
			r.part = m.partOf(p, lost)
		default:
			r.part = nil // more than what failed just now
		}
		switch {
		case r.on:
		case r.broken != "":
			return m.brokenReason(p, r)
		case r.made >= maxLost || m.halted(p.step):
			return m.lostReason(w.step, lost)
		}
	}
	for _, p := range of {
		r := m.remakes[p]
		if !slices.Contains(r.waiting, w) {
			r.waiting = append(r.waiting, w)
		}
		if !r.on && r.due == never {
			m.remake(p, r)
		}
	}
	return ""
}

func (m restorer) brokenReason(p place, r *remake) string {
	return clip(inputLost + "step " + m.g.nodes[p.step].Name + ", computed again: " + strings.TrimPrefix(r.broken, inputLost))
}

// remake begins the next try to compute the files of an instance again.
func (m restorer) remake(p place, r *remake) {
	in := &m.steps[p.step].inst[p.index]
	in.try++
	r.on, r.try, r.job, r.due, r.chunks = true, in.try, "", never, nil
	n := Name{Step: m.g.nodes[p.step].Name, Index: p.index, Try: r.try}
	if r.looking = m.locate(p.step, n, false); !r.looking {
		m.prepare(p.step, p.index, n)
	}
}

// remakeOff has a try begin later that was asked for.
func (m restorer) remakeOff(p place, r *remake, after time.Duration) {
	r.on, r.looking, r.job, r.due = false, false, "", m.turn.now+after
	m.steps[p.step].inst[p.index].try--
	if m.halted(p.step) {
		m.breakRemake(p, r, wasStopped)
	}
}

// remade ends a try to compute files again: they have to be the same.
func (m restorer) remade(p place, r *remake, e End, left []job.OutputFile) {
	n, in := &m.g.nodes[p.step], &m.steps[p.step].inst[p.index]
	switch {
	case r.chunks != nil && e.State == flow.Partial:
		e.State = flow.Failed
	case r.chunks != nil && n.good(e.State):
		if name := m.differs(p, *r.chunks, left); name != "" {
			e.State, e.Final, e.Reason = flow.Failed, true, fmt.Sprintf("output %s is another file than the one that was lost", name)
		}
	case n.good(e.State):
		for name, s := range n.outputs {
			if s.IsFile() && string(e.Outputs[name]) != string(in.outputs[name]) {
				e.State, e.Final, e.Reason = flow.Failed, true, fmt.Sprintf("output %s is another file than the one that was lost", name)
			}
		}
	}
	e.Name, e.Round, e.Outputs = Name{Step: n.Name, Index: p.index, Try: r.try}, m.run.Round, nil
	r.on, r.due = false, never
	if n.good(e.State) {
		e.Outputs = in.outputs
		r.made, r.fails = r.made+1, 0
		m.do(e)
		m.tellWaiting(r, func(w waiter) { m.lookAgain(w) })
		return
	}
	e.Reason = clip(e.Reason)
	m.do(e)
	r.fails++
	if !m.again(p.step, r.fails, e.State, e.Final) {
		m.breakRemake(p, r, e.Reason)
	} else if len(r.waiting) > 0 {
		r.due = m.turn.now + seconds(n.Retry.BackoffSeconds)
	}
}

// breakRemake gives up computing files again, and what waits for them.
func (m restorer) breakRemake(p place, r *remake, reason string) {
	r.on, r.due, r.broken = false, never, cmp.Or(reason, "it failed")
	why := m.brokenReason(p, r)
	m.tellWaiting(r, func(w waiter) {
		if !w.remake {
			switch {
			case m.steps[w.step].inst[w.index].state != flow.Ready:
			case m.halted(w.step):
				m.close(w.step, w.index, flow.Cancelled)
			default:
				m.giveUp(w.step, w.index, why)
			}
		} else if other := m.remakes[w.place]; other != nil && !other.on {
			m.breakRemake(w.place, other, why)
		}
	})
}

func (m restorer) tellWaiting(r *remake, tell func(waiter)) {
	list := r.waiting
	r.waiting = nil
	for _, w := range list {
		tell(w)
	}
}

// lookAgain has what waited for files look for them again, once all that it waited for have
// come.
func (m restorer) lookAgain(w waiter) {
	for _, r := range m.remakes {
		if slices.Contains(r.waiting, w) {
			return
		}
	}
	s := &m.steps[w.step]
	switch in := &s.inst[w.index]; {
	case w.remake:
		if r := m.remakes[w.place]; !r.on && r.broken == "" {
			m.remake(w.place, r)
		}
	case in.state == flow.Ready:
		s.queue = append(s.queue, w.index)
		m.pump(w.step)
	}
}

// giveUp fails an instance that is not running.
func (m restorer) giveUp(i, k int, reason string) {
	in := &m.steps[i].inst[k]
	in.state, in.try, in.job = flow.Running, in.try+1, ""
	m.steps[i].running++
	m.end(i, k, End{State: flow.Failed, Reason: reason, Final: true})
}

// startRemakes begins the tries whose time has come.
func (m restorer) startRemakes() {
	for i := range m.steps {
		for k := range m.steps[i].inst {
			if len(m.remakes) == 0 {
				return
			}
			p := place{i, k}
			if r := m.remakes[p]; r != nil && !r.on && r.due <= m.turn.now {
				m.remake(p, r)
			}
		}
	}
}

// haltRemakes stops the tries of a step, or all of them where nobody can want them any more.
func (m restorer) haltRemakes(of int) {
	for i := range m.steps {
		if of >= 0 && i != of {
			continue
		}
		for k := range m.steps[i].inst {
			p := place{i, k}
			r := m.remakes[p]
			switch {
			case r == nil:
			case r.on && r.job != "":
				m.do(StopJob{Name: Name{Step: m.g.nodes[i].Name, Index: k, Try: r.try}, Job: r.job})
			case of >= 0 && (r.on || r.due != never):
				m.breakRemake(p, r, wasStopped)
			}
		}
	}
}

// recallRemake takes in a try behind the one that counts.
func (m restorer) recallRemake(i int, p *prior, t *flows.Try) {
	r := &p.remake
	if r.on = t.End == nil; r.on {
		r.try, r.job, r.chunks = t.Try, t.Job, t.Part
		return
	}
	if r.fails++; !m.again(i, r.fails, t.End.State, t.End.Final) {
		r.broken = cmp.Or(t.End.Reason, "it failed")
	}
}
