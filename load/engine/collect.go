package engine

import (
	"context"
	"slices"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/clock"
	"github.com/skein-project/skein/load/pace"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/load/stat"
)

const (
	// stopGrace is what is under way has when somebody stops a run.
	stopGrace = 2 * time.Second
)

// collector counts the windows of a run.
type collector struct {
	e      *Engine
	res    *report.Run
	judge  *rule.Judge
	line   stat.Timeline
	window *stat.Bank
	second *stat.Bank // for whoever watches
	frame  framed
	warm   int // windows of the warm-up
	n      int // windows so far
	drops  uint64
	self   clock.Doubts
	cpu    clock.Meter
	harm   rule.Harm
	cutAt  time.Time
}

func newCollector(e *Engine) *collector {
	s, c := len(e.o.Plan.Steps), len(e.o.Plan.Checks)
	return &collector{
		e: e, res: &report.Run{Warm: stat.NewBank(s, c)}, judge: rule.NewJudge(e.o.Rules, s, c), window: stat.NewBank(s, c), second: stat.NewBank(s, c), frame: framed{bank: stat.NewBank(s, c)},
		warm: int(e.o.Plan.Warmup / stat.Step), cpu: clock.NewMeter(stat.Step),
	}
}

// take has what all shards counted in the window.
func (c *collector) take() {
	c.window.Reset()
	for _, s := range c.e.shards {
		b := s.Swap()
		c.window.Add(b)
		b.Reset()
	}
}

// aside counts what no window has: setup and teardown.
func (c *collector) aside() {
	c.take()
	c.res.Warm.Add(c.window)
	c.frame.bank.Add(c.window)
	c.emit(true, stat.Gauges{})
}

// emit hands on what was counted since the last time.
func (c *collector) emit(warm bool, g stat.Gauges) {
	if c.e.o.Emit == nil {
		return
	}
	f := &c.frame
	c.e.o.Emit(stat.Frame{First: f.n, Last: f.n, At: c.n, Span: c.n - f.windows, Warm: warm, Bank: f.bank.Append(nil), Gauges: g})
	f.n++
	f.windows = c.n
	f.bank.Reset()
}

// framed is what frames have, and what the next one is to have.
type framed struct {
	bank    *stat.Bank
	n       uint64
	windows int
}

// count goes on until all users have ended.
func (c *collector) count(ctx context.Context, done <-chan struct{}) {
	e := c.e
	length := e.length()
	tick := time.NewTicker(stat.Step)
	defer tick.Stop()
	cancelled := ctx.Done()
	for {
		select {
		case <-done:
			c.catchUp(length)
			c.last()
			return
		case <-cancelled:
			cancelled = nil
			e.mu.Lock()
			e.stopped = true
			e.mu.Unlock()
			e.stop()
			continue
		case <-tick.C:
		}
		c.catchUp(length)
		c.limit(length)
	}
}

// catchUp counts the windows that have ended.
func (c *collector) catchUp(length time.Duration) {
	now := time.Since(c.e.began)
	c.self.Behind(now-max(c.self.End(c.n+1), c.e.joined), now)
	for first := true; c.self.End(c.n+1) <= now; first = false {
		c.one(first, length)
	}
}

// limit ends what is under way when grace is over.
func (c *collector) limit(length time.Duration) {
	e := c.e
	if c.cutAt.IsZero() {
		switch now := time.Now(); {
		case e.isEnding():
			c.cutAt = now.Add(min(stopGrace, e.o.Plan.Grace))
		case now.Sub(e.began) >= length:
			c.cutAt = e.began.Add(length + e.o.Plan.Grace)
		default:
			return
		}
	}
	if !time.Now().Before(c.cutAt) && !e.isOver() {
		for _, t := range e.traffics {
			t.leftover()
		}
		e.finish()
	}
}

// one counts the next window; what was counted lies in the first of several that
// are late.
func (c *collector) one(first bool, length time.Duration) {
	if first {
		c.take()
	} else {
		c.window.Reset()
	}
	c.n++
	c.self.Slew(time.Duration(c.e.slew.Load()))
	at := time.Duration(c.n) * stat.Step
	var g stat.Gauges
	for _, t := range c.e.traffics {
		one := t.gauge()
		g.Users += one.Users
		g.Queue += one.Queue
	}
	g.CPU = c.cpu.Next(clock.ProcessorTime())
	c.line.Add(at, c.window, g)
	p := &c.res.Peak
	p.Users, p.Queue, p.CPU = max(p.Users, g.Users), max(p.Queue, g.Queue), max(p.CPU, g.CPU)
	if c.n <= c.warm {
		c.res.Warm.Add(c.window)
	} else if o := c.judge.Add(at, c.window); o != nil {
		c.e.end("the threshold " + o.Text + " ended it")
	}
	if c.harm.Next(c.window) && !c.e.o.AllowBreak {
		c.e.end("more than half of the requests failed for 30 s: the target breaks")
	}
	c.self.Window(at.Seconds(), c.cpu.Risen(), c.window.Ended(load.Generator) > 0, c.e.slowedBy() != "")
	c.second.Add(c.window)
	c.frame.bank.Add(c.window)
	if c.n == c.warm || c.n%int(time.Second/stat.Step) == 0 {
		c.emit(c.n <= c.warm, g)
	}
	if c.n%int(time.Second/stat.Step) == 0 {
		if c.n > c.warm { // else it is not judged
			c.self.Second(at.Seconds(), &c.second.OwnLate)
		}
		c.tell(at, length, g)
		c.second.Reset()
	}
}

// last counts what ended after the last window.
func (c *collector) last() {
	c.take()
	if c.n < c.warm {
		c.res.Warm.Add(c.window)
	} else {
		c.judge.Whole().Add(c.window)
	}
	c.frame.bank.Add(c.window)
	c.emit(c.n < c.warm, stat.Gauges{})
	c.line.Tail(c.window)
	c.line.End()
}

// tell says how the run gets on.
func (c *collector) tell(at, length time.Duration, g stat.Gauges) {
	all := c.second.All()
	c.drops += all.Classes[load.Dropped]
	if c.e.o.Watch == nil {
		return
	}
	s := Status{At: at, Of: length, Warm: c.n <= c.warm, Rate: float64(all.Sent()), Dropped: c.drops, Thresholds: c.judge.Now(), Gauges: g}
	s.Planned = c.e.o.Deal.Part() * pace.Rate(c.e.o.Plan, at)
	if n := all.Count(); n > 0 {
		s.Failed = float64(all.Failed()) / float64(n)
	}
	h := &all.Times[stat.Latency]
	s.P50, s.P95, s.P99 = h.Quantile(0.5), h.Quantile(0.95), h.Quantile(0.99)
	c.e.o.Watch(s)
}

// result is what the run came to.
func (c *collector) result() *report.Run {
	e, r := c.e, c.res
	r.Length, r.Warmup = c.judge.Length(), time.Duration(min(c.n, c.warm))*stat.Step
	r.Whole, r.Timeline = c.judge.Whole(), c.line.Points
	r.Outcomes = c.judge.End()
	r.Self = e.selfOf(c)
	r.Doubts = r.Self.Doubts()
	e.mu.Lock()
	defer e.mu.Unlock()
	outcomes := r.Outcomes
	if !e.stopped {
		outcomes = append(rule.NoneOK(r.Whole.All()), outcomes...)
	}
	r.Ended = e.why
	r.Verdict, r.Why = rule.Decide(outcomes, e.why, e.stopped, r.Doubts)
	r.Notes = e.notes
	for k, text := range e.errors {
		r.Errors = append(r.Errors, report.ErrorText{Step: e.o.Plan.Steps[k.series].Name, Class: k.class, Text: text})
	}
	slices.SortFunc(r.Errors, func(a, b report.ErrorText) int {
		if a.Class != b.Class {
			return int(a.Class) - int(b.Class)
		}
		if a.Step < b.Step {
			return -1
		}
		return 1
	})
	return r
}
