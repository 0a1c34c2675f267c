package loads

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/live"
	"github.com/skein-project/skein/load/pace"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/stat"
)

// maxLiveFrames bounds what one answer reads of each host, in bytes.
const maxLiveFrames = 64 << 20

// LoadLive implements loads.Control of package status.
func (l *Loads) LoadLive(ctx context.Context, id event.LoadID, after string, wait time.Duration) (api.LoadLive, error) {
	return l.o.Watch(ctx, forward.LoadWatch{Run: id, After: after, Wait: int(wait / time.Millisecond)})
}

func (l *Loads) watchHere(ctx context.Context, _ forward.Asker, q forward.LoadWatch) (api.LoadLive, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(q.Wait)*time.Millisecond)
	defer cancel()
	for {
		changed := l.o.Log.Changed()
		r, ok := l.run(q.Run)
		if !ok {
			return api.LoadLive{}, unknown(q.Run)
		}
		l.mu.Lock()
		d := l.live[q.Run]
		l.mu.Unlock()
		var news chan struct{}
		if d != nil {
			out, more, ch := d.since(q.After)
			out.State, out.Verdict = r.State, r.Verdict
			if more || ctx.Err() != nil || !r.Open() {
				return out, nil
			}
			news = ch
		} else if !r.Open() {
			return l.past(ctx, r.LoadRun, q.After)
		} else if ctx.Err() != nil {
			return api.LoadLive{State: r.State, Next: q.After, Doing: "waits for the tests before it", Steps: []api.LoadStep{}, Hosts: []api.LoadHostLive{}}, nil
		}
		select {
		case <-ctx.Done():
		case <-news:
		case <-changed:
		}
	}
}

// endPosition is the position behind all of a test that has ended.
const endPosition = "end"

// past tells of a test that has ended, and that this host has not carried out: all of its
// counts at once, from its report.
func (l *Loads) past(ctx context.Context, r event.LoadRun, after string) (api.LoadLive, error) {
	out := api.LoadLive{State: r.State, Verdict: r.Verdict, Next: endPosition, Steps: []api.LoadStep{}, Hosts: []api.LoadHostLive{}}
	if after == endPosition || r.Report.IsZero() {
		return out, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), awaitTime)
	defer cancel()
	text, err := l.o.Kept(ctx, r.Report, report.MaxDocument)
	if err != nil {
		return out, api.Errorf(api.CodeNotReady, "the report is not reached: %v", err)
	}
	doc, err := report.Parse(text)
	if err != nil {
		return out, api.Errorf(api.CodeInternal, "the report %v", err)
	}
	out.Again, out.At, out.Of, out.Seconds = true, doc.Seconds, doc.Seconds, doc.Seconds
	out.Latency = api.LoadTimes{P50: doc.Latency.P50, P95: doc.Latency.P95, P99: doc.Latency.P99, Max: doc.Latency.Max}
	for _, x := range doc.Thresholds {
		out.Thresholds = append(out.Thresholds, api.LoadThreshold{Text: x.Text, OK: x.OK, Value: x.Value, Unit: x.Unit, Samples: x.Samples})
	}
	for _, s := range doc.Steps {
		one := api.LoadStep{Name: s.Name, Requests: s.Requests, Classes: s.Classes, Latency: api.LoadTimes{P50: s.Latency.P50, P95: s.Latency.P95, P99: s.Latency.P99, Max: s.Latency.Max}}
		for _, c := range doc.Checks {
			if c.Step == s.Name {
				one.Checks.Passed, one.Checks.Failed = one.Checks.Passed+c.Passed, one.Checks.Failed+c.Failed
			}
		}
		if s.Aside {
			one.Requests, one.Warm, one.Classes = 0, s.Requests, map[string]uint64{}
		}
		for c, n := range one.Classes {
			if c != load.OK.String() {
				one.Failed += n
			}
			if c == load.Dropped.String() {
				one.Dropped = n
			}
		}
		out.Steps = append(out.Steps, one)
	}
	return out, nil
}

// position is how far a follower has what each host counted: numbers of frames with dots
// between. nil: it is none, or has nothing yet.
func position(text string, hosts int) []uint64 {
	parts := strings.Split(text, ".")
	if len(parts) != hosts {
		return nil
	}
	out := make([]uint64, hosts)
	for i, p := range parts {
		n, err := strconv.ParseUint(p, 10, 53)
		if err != nil {
			return nil
		}
		out[i] = n
	}
	return out
}

// since tells what was counted since a position, up to the last window that was judged: what hosts
// tell one after the other comes together. more: there is something new; else news is closed when
// there is.
func (d *drive) since(after string) (out api.LoadLive, more bool, news chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out = api.LoadLive{Doing: d.doing, Next: after, Steps: []api.LoadStep{}, Hosts: []api.LoadHostLive{}}
	if d.c == nil || len(d.parts) == 0 {
		return out, false, d.news
	}
	out.Of = d.c.length.Seconds()
	from := position(after, len(d.parts))
	if from == nil {
		from = make([]uint64, len(d.parts))
		out.Again = after != ""
	}
	lists := make([][]stat.Frame, len(d.parts))
	for i, p := range d.parts {
		list, known := p.shelf.Since(from[i], maxLiveFrames)
		if !known { // what the follower has ends within what is one frame by now
			clear(from)
			out.Again = true
			for k, p := range d.parts {
				lists[k], _ = p.shelf.Since(0, maxLiveFrames)
			}
			break
		}
		lists[i] = list
	}
	series, checks := len(d.c.plan.Steps), len(d.c.plan.Checks)
	all, warm := stat.NewBank(series, checks), stat.NewBank(series, checks)
	next := make([]string, len(d.parts))
	begins, shares := 0, 0 // begins: which windows are new, of hosts that did not tell late
	for _, p := range d.parts {
		shares += p.share
	}
	furthest := furthest(d.parts)
	for i, p := range d.parts {
		one := api.LoadHostLive{Host: p.host, Stage: p.stageBeside(furthest), At: (time.Duration(p.shelf.At()) * stat.Step).Seconds(), CPU: p.last.CPU, Clock: time.Duration(p.clock).Seconds(), Share: float64(p.share) / float64(shares), Lost: p.lost}
		var own stat.Own
		end, some := from[i], false
		for _, f := range lists[i] {
			if f.Last >= p.told {
				break // of a window that others have not told yet, or it comes with the next one
			}
			to := all
			if f.Warm {
				to = warm
			}
			if to.AddWire(f.Bank) != nil {
				break // the shelf has taken it before
			}
			if !f.Warm {
				own.AddWire(f.Bank)
			}
			end, more = f.Last+1, true
			if !some {
				some, begins = true, max(begins, f.At-f.Span)
			}
		}
		one.Requests, one.LateP99 = own.Sent(), live.Times(&own.Late).P99
		next[i] = strconv.FormatUint(end, 10)
		if !p.over() && !p.silent(furthest) {
			out.Users, out.Queue = out.Users+p.last.Users, out.Queue+p.last.Queue
		}
		out.Hosts = append(out.Hosts, one)
	}
	out.Next, out.At = strings.Join(next, "."), (time.Duration(min(furthest, d.told)) * stat.Step).Seconds()
	if more {
		out.Seconds = max(0, out.At-(time.Duration(begins)*stat.Step).Seconds())
	}
	out.Warm = out.At <= d.c.plan.Warmup.Seconds() && d.c.plan.Warmup > 0
	out.Latency, out.Phases = live.Times(&all.All().Times[stat.Latency]), live.Phases(all)
	out.Planned = pace.Rate(d.c.plan, time.Duration(out.At*float64(time.Second)))
	out.Steps = live.Steps(d.c.plan, all, warm)
	if d.judge != nil {
		out.Thresholds = live.Thresholds(d.judge.Now())
	}
	return out, more, d.news
}

// silentAfter is how far behind the others a host may be, in windows, whose numbers of users and
// arrivals still count as those of now.
const silentAfter = 3 * judged

// furthest is the window up to which any host has told what it counted.
func furthest(parts []*part) (at int) {
	for _, p := range parts {
		at = max(at, p.shelf.At())
	}
	return at
}

// silent reports that a host which runs has told nothing for a while, while others did.
func (p *part) silent(furthest int) bool {
	return p.stage == gang.Running && !p.over() && furthest-p.shelf.At() > silentAfter
}

// stageBeside is how far a host is, beside others.
func (p *part) stageBeside(furthest int) string {
	if p.silent(furthest) {
		return "silent"
	}
	return string(p.stage)
}
