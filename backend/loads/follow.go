package loads

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
	fold "github.com/skein-project/skein/eventlog/state/loads"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/load/slice"
	"github.com/skein-project/skein/load/stat"
)

const (
	// judged is how long a window is that is judged, in windows of a generator.
	judged = int(time.Second / stat.Step)
	// lagging is for how long a window waits for a host that has not told it.
	lagging = time.Second
	look    = 100 * time.Millisecond
	// askSpare is how long an answer takes at least, until a host counts as one that gave none.
	askSpare = 3 * time.Second
	// clockMost is how uncertain a start may be.
	clockMost = 20 * time.Millisecond
)

// open lists what has not ended.
func (l *Loads) open() (out []event.LoadRun) {
	l.o.Log.View(func(st *state.State) {
		for _, r := range st.Loads().Runs() {
			if r.Open() {
				out = append(out, r.LoadRun)
			}
		}
	})
	return out
}

// passing reports an error that may be over the next time.
func passing(err error) bool {
	p, ok := errors.AsType[*api.Problem](err)
	return ok && (p.Code == api.CodeNotReady || p.Code == api.CodeOverloaded || p.Code == api.CodeTimeout)
}

// watch asks one host for what it counts until it has ended, or is lost.
func (d *drive) watch(ctx context.Context, p *part) {
	heard := time.Now()
	var clock readings
	for ctx.Err() == nil {
		// A host that is gone gives neither answer nor error: a question takes no longer
		// than a host may be silent.
		asking, done := context.WithTimeout(ctx, max(askWait+askSpare, lostAfter-time.Since(heard)))
		d.mu.Lock()
		slew := p.slew
		d.mu.Unlock()
		asked := slice.Clock()
		asking = forward.OnSend(asking, func() { asked = slice.Clock() })
		x, err := forward.AskHost(asking, d.l.o.Remote, forward.LoadCounted, p.host, holder, gang.Ask{Run: d.id, After: p.shelf.Next(), Wait: int(askWait / time.Millisecond), Slew: slew})
		done()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			if silent := time.Since(heard); silent > lostAfter {
				d.lose(p, fmt.Sprintf("not heard for %s: %v", silent.Round(time.Second), err))
				return
			}
			_ = wait.For(ctx, askPause) // ctx is looked at above
			continue
		}
		heard = time.Now()
		read := clock.add(asked, slice.Clock(), x, heard)
		switch {
		case x.Stage == gang.Unknown:
			d.lose(p, "the host knows nothing of it any more: it was started again")
			return
		case x.Again:
			d.lose(p, "what it counts could not be followed")
			return
		}
		d.set(func() {
			p.heard, err = heard, p.take(x)
			if d.at != 0 {
				p.read(read, d.at, time.Duration(slice.Clock()-d.at))
			}
		})
		if err != nil {
			d.lose(p, err.Error())
			return
		}
		switch x.Stage {
		case gang.Broken:
			d.lose(p, x.Why)
			return
		case gang.Ready:
			d.join(ctx, p)
		}
		if x.End != nil {
			return
		}
	}
}

// take takes in what a host counted.
func (p *part) take(x gang.Counted) error {
	p.stage, p.redealt = x.Stage, x.Redeal
	for _, f := range x.Frames {
		if f.At > p.most {
			return fmt.Errorf("%w: window %d of a run that has at most %d", stat.ErrWire, f.At, p.most)
		}
		if err := p.shelf.Put(f); err != nil {
			return err
		}
		p.pending = append(p.pending, f)
		p.last = f.Gauges
	}
	if p.end = x.End; p.end != nil {
		p.end.Errors, p.end.Notes = p.end.Errors[:min(len(p.end.Errors), gang.MaxErrors)], p.end.Notes[:min(len(p.end.Notes), gang.MaxErrors)]
	}
	return nil
}

// follow gathers what the hosts count until all have ended, judges it and logs the end.
func (d *drive) follow(ctx context.Context, b event.LoadRun) error {
	d.say("running")
	watching, done := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	defer watchers.Wait()
	defer done()
	d.mu.Lock()
	for _, p := range d.parts {
		p.heard = time.Now() // by the holder before this one, as late as that
		if !p.over() {
			watchers.Go(func() { d.watch(watching, p) })
		}
	}
	d.mu.Unlock()
	j, began := newJudging(d), time.Now() // a new holder does not know when it began, but it has
	d.set(func() { d.judge = j.judge })
	tick := time.NewTicker(look)
	defer tick.Stop()
	ending, turn := "", 0
	var endBy time.Time
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		if err := d.logLost(ctx); err != nil {
			return err
		}
		if lost := d.lost(); b.Loss == gang.LossRedistribute && lost > turn && ending == "" {
			turn = lost
			watchers.Go(func() { d.redistribute(watching, b, lost) })
		}
		d.mu.Lock()
		before := d.told
		why := j.advance(time.Now(), false)
		if d.told != before {
			d.tell()
		}
		over, stop := true, false
		for _, p := range d.parts {
			over = over && p.over()
			if p.lost != "" && b.Loss == gang.LossAbort {
				why = orElse(why, fmt.Sprintf("%s was lost: %s", p.host, p.lost))
			}
			if p.end != nil && p.end.Why != "" {
				why = orElse(why, fmt.Sprintf("%s: %s", p.host, p.end.Why))
			}
		}
		late := time.Since(began) > d.c.length+d.c.plan.Grace+slack
		d.mu.Unlock()
		now, _ := d.l.run(d.id)
		stop = now.Stop != ""
		switch {
		case over:
			if ending == "" {
				j.ended = why // of the last that ended
			}
			return d.finish(ctx, j, ending != "", now)
		case ending == "" && (why != "" || stop):
			ending = orElse(why, now.Stop)
			if why != "" {
				j.ended = why
			}
			d.say("ending: %s", ending)
			d.endAll(ctx)
			endBy = time.Now().Add(slack)
		case late, ending != "" && time.Now().After(endBy):
			for _, p := range d.parts {
				d.lose(p, "it did not end in time")
			}
		}
	}
}

// endAll has all hosts end their parts.
func (d *drive) endAll(ctx context.Context) {
	d.mu.Lock()
	going := slices.DeleteFunc(slices.Clone(d.parts), func(p *part) bool { return p.over() })
	d.mu.Unlock()
	var telling sync.WaitGroup
	for _, p := range going {
		telling.Go(func() {
			for range 3 {
				if _, err := forward.AskHost(ctx, d.l.o.Remote, forward.LoadEnd, p.host, holder, gang.End{Run: d.id}); err == nil {
					return // one that does not hear it ends when nobody asks for it
				}
				if wait.For(ctx, askPause) != nil {
					return
				}
			}
		})
	}
	telling.Wait()
}

// cut reports that a host that was not lost ended before its time.
func (d *drive) cut() bool {
	return slices.ContainsFunc(d.parts, func(p *part) bool { return p.lost == "" && p.end != nil && p.end.Stopped })
}

// logLost logs who was lost since the last time.
func (d *drive) logLost(ctx context.Context) error {
	now, _ := d.l.run(d.id)
	news := map[cluster.NodeID]string{}
	d.mu.Lock()
	for i, p := range d.parts {
		if i < len(now.Slices) && p.lost != now.Slices[i].Lost {
			news[p.host] = p.lost
		}
	}
	d.mu.Unlock()
	if len(news) == 0 {
		return nil
	}
	return d.l.change(ctx, d.id, func(b *event.LoadRun, _ bool) error {
		for i := range b.Slices {
			if why := news[b.Slices[i].Host]; why != "" {
				b.Slices[i].Lost = why
			}
		}
		b.Actor = holder
		return nil
	})
}

// judging makes the result of what the hosts counted. The drive's mutex guards it.
type judging struct {
	d     *drive
	judge *rule.Judge
	line  stat.Timeline
	warm  *stat.Bank
	all   *stat.Bank // of one window: its memory is used again
	shown *stat.Bank // of one window, with what is of the warm-up
	n     int        // windows that were judged
	warmN int
	peak  stat.Gauges
	ended string
	bad   error
}

func newJudging(d *drive) *judging {
	s, c := len(d.c.plan.Steps), len(d.c.plan.Checks)
	return &judging{
		d: d, judge: rule.NewCoarseJudge(d.c.rules, s, c, time.Duration(judged)*stat.Step), warm: stat.NewBank(s, c), all: stat.NewBank(s, c), shown: stat.NewBank(s, c), warmN: int(d.c.plan.Warmup / stat.Step),
	}
}

// advance judges the windows that all hosts have told, or have had time to. It says why
// the run must end.
func (j *judging) advance(now time.Time, last bool) (why string) {
	for {
		end := (j.n + 1) * judged
		waits, some := false, false
		for _, p := range j.d.parts {
			some = some || p.shelf.At() >= end
		}
		for _, p := range j.d.parts {
			switch {
			case p.over() || p.shelf.At() >= end:
				p.behind = time.Time{}
			case some && p.behind.IsZero():
				p.behind, waits = now, true
			case some: // it was waited for: windows behind it need not again
				waits = waits || now.Sub(p.behind) < lagging
			}
		}
		if (!some || waits) && !last {
			return why
		}
		if last && !j.pending() {
			return why
		}
		if o := j.window(end, last && !some); o != nil {
			why = orElse(why, "the threshold "+o.Text+" ended it")
		}
	}
}

func (j *judging) pending() bool {
	return slices.ContainsFunc(j.d.parts, func(p *part) bool { return len(p.pending) > 0 })
}

// window judges what ended up to a window of the run; rest: and all that is there.
func (j *judging) window(end int, rest bool) *rule.Outcome {
	all := j.all
	all.Reset()
	j.shown.Reset()
	var g stat.Gauges
	furthest := furthest(j.d.parts)
	for _, p := range j.d.parts {
		n := 0
		for ; n < len(p.pending) && (rest || p.pending[n].At <= end); n++ {
			f := p.pending[n]
			p.told = f.Last + 1
			to := all
			if f.Warm {
				to = j.warm
			}
			if err := to.AddWire(f.Bank); err != nil {
				j.bad = err // the shelf has taken it before
				continue
			}
			switch {
			case !f.Warm:
				p.own.AddWire(f.Bank)
			case f.Span > 0: // else it is of setup or teardown
				_ = j.shown.AddWire(f.Bank) // it was taken above
			}
		}
		p.pending = slices.Delete(p.pending, 0, n)
		if !p.over() && !p.silent(furthest) {
			g.Users, g.Queue, g.CPU = g.Users+p.last.Users, g.Queue+p.last.Queue, max(g.CPU, p.last.CPU)
		}
	}
	if rest { // what ended behind the last whole window is a part of it
		j.judge.Whole().Add(all)
		j.line.Tail(all)
		return nil
	}
	j.n++
	j.d.told = end
	at := time.Duration(end) * stat.Step
	if j.shown.Iterations+j.shown.All().Count() > 0 {
		j.shown.Add(all)
		j.line.AddSpan(at, time.Duration(judged)*stat.Step, j.shown, g)
	} else {
		j.line.AddSpan(at, time.Duration(judged)*stat.Step, all, g)
	}
	j.peak.Users, j.peak.Queue, j.peak.CPU = max(j.peak.Users, g.Users), max(j.peak.Queue, g.Queue), max(j.peak.CPU, g.CPU)
	if end <= j.warmN {
		j.judge.Whole().Add(all) // what ended last where the warm-up did: it is of the run, and of no window of it
		return nil
	}
	return j.judge.Add(at, all)
}

// result makes the report.
func (j *judging) result(stopped bool) *report.Report {
	d := j.d
	j.advance(time.Now(), true)
	d.told = math.MaxInt
	j.line.End()
	r := &report.Run{
		Started: d.began, Length: j.judge.Length(), Warmup: time.Duration(min(j.n*judged, j.warmN)) * stat.Step, Whole: j.judge.Whole(), Warm: j.warm,
		Timeline: j.line.Points, Outcomes: j.judge.End(), Peak: j.peak,
	}
	if r.Started.IsZero() {
		r.Started = time.Now().Add(-time.Duration(j.n*judged) * stat.Step)
	}
	r.Self.Late, r.Notes, r.Marks = &r.Whole.OwnLate, append(r.Notes, d.notes...), slices.Clone(d.marks)
	all := r.Whole.All()
	shares := 0
	for _, p := range d.parts {
		shares += p.share
	}
	var lost []string
	errs := map[string]bool{}
	for _, p := range d.parts {
		one := report.Host{Name: string(p.host), Share: float64(p.share) / float64(shares), Requests: p.own.Sent(), Clock: time.Duration(p.clock).Seconds(), Lost: p.lost}
		self := rule.Self{Late: &p.own.Late, Own: p.own.Classes[load.Generator]}
		if h := &all.Times[stat.Latency]; h.N > 0 {
			self.Latency = h.Quantile(0.5)
		}
		if p.own.Late.N > 0 {
			one.LateP99 = p.own.Late.Quantile(0.99)
		}
		if e := p.end; e != nil {
			self.CPU, self.Gap, self.Slowed, self.When = e.CPU, time.Duration(e.Gap*float64(time.Second)), e.Slowed, e.When
			one.CPU = e.CPU
			r.Self.CPU, r.Self.Gap = math.Max(r.Self.CPU, e.CPU), max(r.Self.Gap, self.Gap)
			for _, f := range e.Errors {
				if key := f.Step + " " + f.Class.String(); !errs[key] {
					errs[key] = true
					r.Errors = append(r.Errors, report.ErrorText{Step: f.Step, Class: f.Class, Text: string(p.host) + ": " + f.Text})
				}
			}
			if e.Stopped && !stopped && j.ended == "" {
				lost = append(lost, fmt.Sprintf("%s ended before its time: no holder asked for what it counted", p.host))
			}
			for _, n := range e.Notes {
				r.Notes = append(r.Notes, string(p.host)+": "+n)
			}
		}
		if p.lost != "" {
			lost = append(lost, fmt.Sprintf("%s was lost: %s", p.host, p.lost))
			if at := p.shelf.At(); at > 0 { // else a holder before this one knew
				r.Marks = append(r.Marks, report.Mark{At: (time.Duration(at) * stat.Step).Seconds(), Text: string(p.host) + " lost"})
			}
		}
		doubts := self.Doubts()
		if p.clock > int64(clockMost) {
			doubts = append(doubts, fmt.Sprintf("it began up to %s beside the others, in second 0", time.Duration(p.clock).Round(time.Millisecond)))
		}
		if p.moved != "" {
			doubts = append(doubts, p.moved)
		}
		for _, x := range doubts {
			r.Doubts = append(r.Doubts, string(p.host)+": "+x)
		}
		r.Hosts = append(r.Hosts, one)
	}
	outcomes := r.Outcomes
	if !stopped {
		outcomes = append(rule.NoneOK(all), outcomes...)
	}
	r.Verdict, r.Why = rule.Decide(outcomes, j.ended, stopped, r.Doubts)
	if len(lost) > 0 && (r.Verdict == rule.Passed || r.Verdict == rule.Suspect) {
		r.Verdict, r.Why = rule.Incomplete, lost
	} else {
		r.Notes = append(lost, r.Notes...)
	}
	slices.SortStableFunc(r.Marks, func(a, b report.Mark) int { return cmp.Compare(a.At, b.At) })
	return report.New(d.c.plan, r)
}

// finish keeps the report and logs the end. told: the hosts were told to end.
func (d *drive) finish(ctx context.Context, j *judging, told bool, now fold.Run) error {
	if err := d.logLost(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	doc := j.result(now.Stop != "" && j.ended == "" && (told || d.cut()))
	d.tell()
	bad := j.bad
	d.mu.Unlock()
	if bad != nil {
		return bad
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return err
	}
	h, err := d.l.o.Keep(bytes.NewReader(text), report.MaxDocument)
	if err != nil {
		return err
	}
	if err := d.l.change(ctx, d.id, func(b *event.LoadRun, known bool) error {
		if !known || !b.Open() {
			return errSame
		}
		b.State, b.Verdict, b.Why, b.Report, b.Actor = event.LoadEnded, string(doc.Verdict), clip(strings.Join(doc.Why, "; "), cluster.MaxReason), h, holder
		return nil
	}); err != nil {
		return err
	}
	d.l.o.Logger.Info().Str("run", string(d.id)).Str("verdict", string(doc.Verdict)).Uint64("requests", doc.Requests).Msg("load test ended")
	ended, _ := d.l.run(d.id)
	d.drop(ctx, ended.Slices)
	return nil
}
