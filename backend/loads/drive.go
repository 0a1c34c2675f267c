package loads

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/internal/wait"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/bundle"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/pace"
	"github.com/skein-project/skein/load/report"
	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/load/stat"
)

const (
	// prepareTime bounds how long hosts are made ready, with what they run; retries is how
	// often one that fails is left out.
	prepareTime = 6 * time.Minute
	prepareLook = 300 * time.Millisecond
	// mute is how long one may not be able to answer meanwhile until it is left out.
	mute      = 30 * time.Second
	busyPause = 2 * time.Second
	retries   = 3
	// startAhead is how far ahead the start lies: in the middle between two asks for what was counted,
	// so that hosts have nothing else to do then.
	startAhead = 2*time.Second + askWait/2
	// clockAsks is how often a clock is asked before the start, of which the fastest answer counts.
	// From then on answers with what was counted say the time as well; of those within clockEvery
	// the fastest counts.
	clockAsks  = 8
	clockEvery = 10 * time.Second
	clockWait  = 10 * time.Second // for all answers
	// lostAfter is how long a host that takes part may be silent.
	lostAfter = 15 * time.Second
	// fence is for how long it sends while this is not heard, if others do its part then: it
	// ends before they begin, however late its last answer came here.
	fence    = 12 * time.Second
	askWait  = time.Second
	askPause = 300 * time.Millisecond
	// retryPause lies between two tries of a test that could not be carried out.
	retryPause = time.Second
	// slack is how long a run may take beyond its plan and grace.
	slack = 30 * time.Second
	// maxLive is how many tests' counts are remembered, at most stat.MaxShelf of each:
	// those of the running test and of the one before, for followers that are a little
	// behind. Later ones get all of a test at once, from its report.
	maxLive = 2
)

// compiled is what a test runs.
type compiled struct {
	plan   *load.Plan
	rules  []*rule.Rule
	rate   float64
	users  int
	length time.Duration
}

func compile(text []byte) (*compiled, error) {
	b, err := bundle.Decode(text)
	if err != nil {
		return nil, err
	}
	c := &compiled{}
	if c.plan, c.rules, err = b.Compile(nil); err != nil {
		return nil, err
	}
	c.rate, c.users = pace.Peak(c.plan)
	c.length = pace.Length(c.plan)
	return c, nil
}

// wants is what the plan asks of hosts.
func (c *compiled) wants(b event.LoadRun) gang.Plan {
	open := 0
	for _, t := range c.plan.Traffics {
		if t.Open {
			open += t.MaxUsers // what a rate needs at most
		}
	}
	w := gang.Plan{Hosts: b.Hosts, On: b.On, Rate: c.rate, Users: c.users - open, Rise: pace.Rise(c.plan)}
	if c.plan.HTTP.Connections == "user" {
		w.Connections = w.Users
	}
	return w
}

// drive carries out one test within a term.
type drive struct {
	l    *Loads
	id   event.LoadID
	term cluster.Term

	mu    sync.Mutex
	news  chan struct{} // closed and made again when something changed
	doing string
	c     *compiled // nil: not read yet
	parts []*part
	judge *rule.Judge // nil: nothing is counted yet
	notes []string
	marks []report.Mark
	began time.Time
	at    int64 // the same by the clock that load tests go by; 0: not known
	told  int   // up to which window followers are told: what was judged
	// extracted is what setup left, once the run has begun.
	extracted [][]byte
}

// part is what is known of one host's slice.
type part struct {
	host  cluster.NodeID
	share int
	timed
	shelf *stat.Shelf
	most  int // windows: where the run has ended in any case
	stage gang.Stage
	end   *gang.Ended
	lost  string
	// pending are frames that are not judged yet; own is of all that were, without warm-up.
	pending []stat.Frame
	own     stat.Own
	told    uint64 // behind the frames that were judged
	last    stat.Gauges
	redealt *gang.Redeal // that it was told of; nil: none
	heard   time.Time    // when its last answer came
	behind  time.Time    // since when windows wait for it; zero: none does
}

func (p *part) over() bool { return p.lost != "" || p.end != nil }

// Run carries out the tests there are, one after the other, until ctx ends.
func (l *Loads) Run(ctx context.Context, term cluster.Term) {
	failing, since := event.LoadID(""), time.Time{}
	for {
		changed := l.o.Log.Changed()
		b, ok := l.next()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
			continue
		}
		d := l.begin(b.Run, term)
		err := d.carryOut(ctx, b)
		if ctx.Err() != nil {
			l.forget(b.Run)
			return
		}
		now, _ := l.run(b.Run)
		if err == nil && now.Open() {
			err = errors.New("the log does not say that it has ended")
		}
		if err == nil {
			failing = ""
			continue
		}
		l.o.Logger.Warn().Err(err).Str("run", string(b.Run)).Msg("load test not carried out, trying again")
		if failing != b.Run {
			failing, since = b.Run, time.Now()
		}
		if now.Open() && time.Since(since) > l.patience(now.Stop != "") {
			d.giveUp(ctx, now.LoadRun, err)
		}
		if wait.For(ctx, retryPause) != nil {
			return
		}
	}
}

// patience is how long this host keeps trying a test that it cannot carry out, while
// others wait.
func patience(stopped bool) time.Duration {
	if stopped {
		return 30 * time.Second
	}
	return 10 * time.Minute
}

// giveUp ends a test that has no result because of err.
func (d *drive) giveUp(ctx context.Context, b event.LoadRun, err error) {
	verdict := rule.Failed
	if b.Stop != "" {
		verdict = rule.Stopped
	}
	d.drop(ctx, b.Slices)
	if err := d.end(ctx, string(verdict), "the holder could not carry it out: "+err.Error()); err != nil {
		d.l.o.Logger.Warn().Err(err).Str("run", string(b.Run)).Msg("the end of a load test is not logged")
	}
}

// next is the test that is to be carried out: one that has started, or that was submitted
// first.
func (l *Loads) next() (event.LoadRun, bool) {
	var first event.LoadRun
	found := false
	for _, r := range l.open() {
		if r.State == event.LoadStarted {
			return r, true
		}
		if !found {
			first, found = r, true
		}
	}
	return first, found
}

// begin remembers what this host carries out.
func (l *Loads) begin(id event.LoadID, term cluster.Term) *drive {
	d := &drive{l: l, id: id, term: term, news: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.live[id] == nil {
		l.order = append(l.order, id)
	}
	l.live[id] = d
	for len(l.order) > maxLive {
		delete(l.live, l.order[0])
		l.order = l.order[1:]
	}
	return d
}

// forget drops what this host knows of the tests that it carried out: another holder
// continues them, and knows more.
func (l *Loads) forget(id event.LoadID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.live, id)
	l.order = slices.DeleteFunc(l.order, func(o event.LoadID) bool { return o == id })
}

// set changes d, and tells who waits.
func (d *drive) set(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
	d.tell()
}

// tell tells who waits, with d.mu.
func (d *drive) tell() {
	close(d.news)
	d.news = make(chan struct{})
}

func (d *drive) say(format string, args ...any) {
	d.set(func() { d.doing = fmt.Sprintf(format, args...) })
}

// carryOut brings a test to its end. An error is about this host in this term: the log
// says the same of the test as before.
func (d *drive) carryOut(ctx context.Context, b event.LoadRun) error {
	if b.State == event.LoadQueued && b.Stop != "" {
		return d.end(ctx, string(rule.Stopped), b.Stop)
	}
	d.say("the scenario is read")
	text, err := d.l.o.Get(ctx, b.Bundle, bundle.Max)
	if err != nil {
		return err
	}
	c, err := compile(text)
	if err != nil {
		return d.end(ctx, string(rule.Failed), "the scenario makes no sense to the holder: "+err.Error())
	}
	d.set(func() { d.c = c })
	var extracted [][]byte
	if b.State == event.LoadQueued {
		var why string
		if b, extracted, why, err = d.gather(ctx, b); err != nil {
			return err
		}
		if why != "" {
			d.drop(ctx, b.Slices)
			verdict := rule.Failed
			if now, _ := d.l.run(d.id); now.Stop != "" {
				verdict = rule.Stopped
			}
			return d.end(ctx, string(verdict), why)
		}
	}
	d.set(func() {
		d.parts = nil
		most := int((c.length + c.plan.Grace + 2*slack) / stat.Step)
		for _, s := range b.Slices {
			shelf := stat.NewShelf(len(c.plan.Steps), len(c.plan.Checks), stat.MaxShelf/len(b.Slices))
			d.parts = append(d.parts, &part{host: s.Host, share: s.Share, lost: s.Lost, most: most, shelf: shelf})
		}
	})
	if err := d.start(ctx, extracted); err != nil {
		return err
	}
	return d.follow(ctx, b)
}

// offers asks all hosts what they allow.
func (l *Loads) offers(ctx context.Context, b event.LoadRun, c *compiled) []gang.Host {
	w := gang.Wanted{Run: b.Run, Owner: b.Owner, Targets: gang.Targets(c.plan)}
	members := l.o.Members()
	out := make([]gang.Host, len(members))
	var asking sync.WaitGroup
	for i, n := range members {
		asking.Go(func() {
			out[i].Node = n
			if len(b.On) > 0 && !slices.Contains(b.On, n) {
				out[i].Why = "not asked for"
				return
			}
			offer, err := forward.AskHost(ctx, l.o.Remote, forward.LoadOffer, n, holder, w)
			if err != nil {
				offer.Why = err.Error()
			}
			out[i].Offer = offer
		})
	}
	asking.Wait()
	return out
}

// gather has hosts made ready, and logs who takes part. why says that there are none that
// may.
func (d *drive) gather(ctx context.Context, b event.LoadRun) (_ event.LoadRun, extracted [][]byte, why string, err error) {
	refusals := map[cluster.NodeID]string{}
	until := time.Now().Add(prepareTime)
	for try := 0; ; {
		d.say("hosts are asked")
		hosts := d.l.offers(ctx, b, d.c)
		var busy []string
		for i := range hosts {
			if hosts[i].Busy != "" {
				busy = append(busy, fmt.Sprintf("%s is held for the load test %s", hosts[i].Node, hosts[i].Busy))
			}
			if no := refusals[hosts[i].Node]; no != "" && hosts[i].Why == "" {
				hosts[i].Why = no
			}
		}
		if len(busy) > 0 && time.Now().Before(until) {
			d.say("%s", strings.Join(busy, "; "))
			if now, _ := d.l.run(d.id); now.Stop != "" {
				return b, nil, now.Stop, nil
			}
			if err := wait.For(ctx, busyPause); err != nil {
				return b, nil, "", err
			}
			continue
		}
		parts, err := gang.Choose(d.c.wants(b), hosts)
		if err != nil {
			return b, nil, err.Error(), nil
		}
		b.Slices = parts
		extracted, failed, stopped, err := d.prepare(ctx, b, until)
		switch {
		case err != nil:
			return b, nil, "", err
		case stopped != "":
			return b, nil, stopped, nil
		case len(failed) == 0:
			err := d.l.change(ctx, d.id, func(now *event.LoadRun, known bool) error {
				if !known || now.State != event.LoadQueued || now.Stop != "" {
					return errSame // somebody stopped it meanwhile
				}
				now.State, now.Slices, now.Actor = event.LoadStarted, parts, holder
				return nil
			})
			now, _ := d.l.run(d.id)
			if err == nil && now.State != event.LoadStarted {
				d.drop(ctx, parts)
				return b, nil, orElse(now.Stop, "it is not there any more"), nil
			}
			return now.LoadRun, extracted, "", err
		}
		d.drop(ctx, parts)
		var all []string
		for n, no := range failed {
			refusals[n] = no
			all = append(all, fmt.Sprintf("%s: %s", n, no))
		}
		if try++; try >= retries {
			slices.Sort(all)
			return b, nil, "hosts could not be made ready: " + strings.Join(all, "; "), nil
		}
	}
}

// prepare waits until all are ready, and says who failed.
func (d *drive) prepare(ctx context.Context, b event.LoadRun, until time.Time) (extracted [][]byte, failed map[cluster.NodeID]string, stopped string, err error) {
	failed = map[cluster.NodeID]string{}
	seed := seedOf(b.Run)
	shares := sharesOf(b.Slices)
	ready := map[cluster.NodeID]bool{}
	heard := map[cluster.NodeID]time.Time{} // since when it is waited for
	var mu sync.Mutex
	for {
		var waits []string
		var asking sync.WaitGroup
		for i, s := range b.Slices {
			if ready[s.Host] {
				continue
			}
			asking.Go(func() {
				asked := time.Now()
				p, err := forward.AskHost(ctx, d.l.o.Remote, forward.LoadPrepare, s.Host, holder, gang.Prepare{
					Run: b.Run, Attempt: uint64(d.term), Owner: b.Owner, Bundle: b.Bundle, Shares: shares, Index: i, Seed: seed, Fence: fenceOf(b.Loss),
				})
				mu.Lock()
				defer mu.Unlock()
				if err == nil || heard[s.Host].IsZero() {
					heard[s.Host] = asked
				}
				switch silent := time.Since(heard[s.Host]); {
				case err != nil && !passing(err):
					failed[s.Host] = err.Error()
				case err != nil && silent > d.l.mute:
					failed[s.Host] = fmt.Sprintf("no answer for %s: %v", silent.Round(time.Second), err)
				case p.Ready:
					ready[s.Host] = true
					if i == 0 {
						extracted = p.Extracted
					}
				default:
					waits = append(waits, fmt.Sprintf("%s waits for %s", s.Host, orElse(p.Waits, "its answer")))
				}
			})
		}
		asking.Wait()
		if now, _ := d.l.run(d.id); now.Stop != "" {
			return nil, failed, now.Stop, nil
		}
		if len(failed) > 0 || len(ready) == len(b.Slices) {
			return extracted, failed, "", nil
		}
		slices.Sort(waits)
		d.say("%s", strings.Join(waits, "; "))
		if time.Now().After(until) {
			for _, s := range b.Slices {
				if !ready[s.Host] {
					failed[s.Host] = "not ready in time"
				}
			}
			return nil, failed, "", nil
		}
		if err := wait.For(ctx, prepareLook); err != nil {
			return nil, failed, "", err
		}
	}
}

// fenceOf is for how long a slice may send while it is not heard, in milliseconds.
func fenceOf(loss string) int {
	if loss == gang.LossRedistribute {
		return int(fence / time.Millisecond)
	}
	return 0
}

func sharesOf(list []event.LoadSlice) []int {
	out := make([]int, len(list))
	for i, s := range list {
		out[i] = s.Share
	}
	return out
}

// seedOf is the seed of a run, the same on all hosts and for each holder.
func seedOf(id event.LoadID) (seed uint64) {
	for _, c := range id {
		seed = seed*31 + uint64(c) //nolint:gosec // a letter
	}
	return seed
}

// drop has hosts forget their parts.
func (d *drive) drop(ctx context.Context, list []event.LoadSlice) {
	var telling sync.WaitGroup
	for _, s := range list {
		telling.Go(func() {
			// A host that does not hear it forgets by itself.
			_, _ = forward.AskHost(ctx, d.l.o.Remote, forward.LoadEnd, s.Host, holder, gang.End{Run: d.id, Drop: true})
		})
	}
	telling.Wait()
}

// end logs how a test ended that has no result.
func (d *drive) end(ctx context.Context, verdict, why string) error {
	return d.l.change(ctx, d.id, func(now *event.LoadRun, known bool) error {
		if !known || !now.Open() {
			return errSame
		}
		now.State, now.Verdict, now.Why, now.Actor = event.LoadEnded, verdict, clip(why, cluster.MaxReason), holder
		return nil
	})
}

// lose gives a slice up.
func (d *drive) lose(p *part, why string) {
	d.set(func() {
		if !p.over() {
			p.lost = clip(why, cluster.MaxReason/2)
		}
	})
	d.l.o.Logger.Warn().Str("run", string(d.id)).Str("peer", string(p.host)).Str("reason", why).Msg("host of a load test is lost")
}
