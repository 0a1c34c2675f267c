package loads

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/forward"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/bundle"
	"github.com/skein-project/skein/load/gang"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/slice"
	"github.com/skein-project/skein/load/stat"
)

// anywhere allows tests of a target that answers nothing.
func anywhere() slice.Allowed {
	return slice.Allowed{Enabled: true, Owners: []string{"uid:1"}, Targets: map[string]guard.Limits{"127.0.0.1:9": {}}}
}

func calm() *bundle.Bundle {
	return &bundle.Bundle{URL: &bundle.URL{URL: "http://127.0.0.1:9/", Rate: 1, Seconds: 1}}
}

// state waits until the log says of a test what is wanted.
func (c *cluster1) state(t *testing.T, l *Loads, id event.LoadID, want event.LoadState) event.LoadRun {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; {
		changed := c.Changed()
		r, _ := l.run(id)
		if r.State == want {
			return r.LoadRun
		}
		select {
		case <-changed:
		case <-time.After(time.Until(deadline)):
			t.Fatalf("%s, want %s", r.State, want)
		}
	}
}

// TestReasonsOfAnyLength: the log says of a reason what was decided, wherever it is cut:
// with half a character in it, it would not fold.
func TestReasonsOfAnyLength(t *testing.T) {
	c := newCluster(t, anywhere())
	l := c.holder(t)
	for n := range 4 {
		for _, why := range []string{strings.Repeat("x", n) + strings.Repeat("\u20ac", cluster.MaxReason), "x" + strings.Repeat("\xff", cluster.MaxReason)} {
			id, err := c.submit(t, l, fmt.Sprint(n, why[n:n+6]), calm())
			if err != nil {
				t.Fatal(err)
			}
			d := l.begin(id, 1)
			p := &part{host: "n1"}
			d.lose(p, why)
			if err := l.change(t.Context(), id, func(b *event.LoadRun, _ bool) error {
				b.State, b.Slices = event.LoadStarted, []event.LoadSlice{{Host: "n1", Share: 1, Lost: p.lost}}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if now, _ := l.run(id); len(now.Slices) != 1 || now.Slices[0].Lost != p.lost {
				t.Errorf("%d %.9q: the log does not say of what was lost what was decided", n, why)
			}
			if err := d.end(t.Context(), "failed", why); err != nil {
				t.Fatal(err)
			}
			if now, _ := l.run(id); now.Open() {
				t.Errorf("%d %.9q: it is open after its end was logged", n, why)
			}
		}
	}
}

// TestImpossibleWindows: a host that says to have counted in the far future is not
// followed: the holder would look at each second until then.
func TestImpossibleWindows(t *testing.T) {
	bank := stat.NewBank(1, 0).Append(nil)
	for at, ok := range map[int]bool{10: true, 11: false, math.MaxInt: false} {
		p := &part{most: 10, shelf: stat.NewShelf(1, 0, stat.MaxShelf)}
		if err := p.take(gang.Counted{Stage: gang.Running, Frames: []stat.Frame{{At: at, Bank: bank}}}); (err == nil) != ok {
			t.Errorf("window %d: %v", at, err)
		}
	}
}

// TestVerdictOfAnEarlyEnd: a run that the last host ended before its time is not judged as if
// it had come to its end.
func TestVerdictOfAnEarlyEnd(t *testing.T) {
	c := newCluster(t, anywhere())
	l := c.holder(t)
	text, err := calm().Encode()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := compile(text)
	if err != nil {
		t.Fatal(err)
	}
	bank := stat.NewBank(1, 0)
	bank.Series[0].Classes[load.OK] = 10
	frame := stat.Frame{At: 10, Span: 10, Bank: bank.Append(nil)}
	for name, x := range map[string]struct {
		end        gang.Ended
		stop       string
		want, text string
	}{
		"to its end":    {want: "passed"},
		"harm":          {end: gang.Ended{Why: "the target breaks"}, want: "aborted", text: "the target breaks"},
		"no holder":     {end: gang.Ended{Stopped: true}, want: "incomplete", text: "before its time"},
		"told before":   {end: gang.Ended{Stopped: true}, stop: "enough", want: "stopped"},
		"told too late": {stop: "enough", want: "passed"},
	} {
		id, err := c.submit(t, l, name, calm())
		if err != nil {
			t.Fatal(err)
		}
		if err := l.change(t.Context(), id, func(b *event.LoadRun, _ bool) error {
			b.State, b.Slices, b.Stop = event.LoadStarted, []event.LoadSlice{{Host: "n1", Share: 1}}, x.stop
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		p := &part{host: "n1", share: 1, most: 10, shelf: stat.NewShelf(1, 0, stat.MaxShelf)}
		if err := p.take(gang.Counted{Stage: gang.Done, Frames: []stat.Frame{frame}, End: &x.end}); err != nil {
			t.Fatal(err)
		}
		d := l.begin(id, 1)
		d.c, d.parts = plan, []*part{p}
		r, _ := l.run(id)
		if err := d.follow(t.Context(), r.LoadRun); err != nil {
			t.Fatal(err)
		}
		if r, _ := l.run(id); r.Verdict != x.want || !strings.Contains(r.Why, x.text) {
			t.Errorf("%s: %s, %s; want %s, %s", name, r.Verdict, r.Why, x.want, x.text)
		}
	}
}

// TestGivesUp: a test that the holder cannot carry out ends some day, so that those behind
// it have their turn.
func TestGivesUp(t *testing.T) {
	c := newCluster(t, anywhere())
	l := c.holder(t)
	lost, err := c.submit(t, l, "lost", calm())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.change(t.Context(), lost, func(b *event.LoadRun, _ bool) error {
		b.State, b.Slices, b.Bundle = event.LoadStarted, []event.LoadSlice{{Host: "n1", Share: 1}}, cluster.Hash{99}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	other, err := c.submit(t, l, "other", calm())
	if err != nil {
		t.Fatal(err)
	}
	if err := l.change(t.Context(), other, func(b *event.LoadRun, _ bool) error { b.Stop = "enough"; return nil }); err != nil {
		t.Fatal(err)
	}
	l.patience = func(bool) time.Duration { return 0 }
	term(t, l, 1)
	c.state(t, l, other, event.LoadEnded)
	if b, _ := l.run(lost); b.Verdict != "failed" || !strings.Contains(b.Why, "not here") {
		t.Errorf("%s, %s", b.Verdict, b.Why)
	}
	if patience(true) >= patience(false) {
		t.Error("what was stopped is tried for longer")
	}
}

// TestGivesUpWithoutPlace: nor does a report that finds no place stop the others.
func TestGivesUpWithoutPlace(t *testing.T) {
	c := newCluster(t, anywhere())
	l := c.holder(t)
	l.o.Keep = func(io.Reader, int64) (cluster.Hash, error) { return cluster.Hash{}, errors.New("no room") }
	l.patience = func(bool) time.Duration { return 0 }
	id, err := c.submit(t, l, "k", calm())
	if err != nil {
		t.Fatal(err)
	}
	term(t, l, 1)
	if b := c.state(t, l, id, event.LoadEnded); !strings.Contains(b.Why, "no room") || !b.Report.IsZero() {
		t.Errorf("%s, %s, report %s", b.Verdict, b.Why, b.Report)
	}
}

// TestShareIsTakenOverOnce: a holder that finds that others were told to take over the share of a
// host says from when on, and has nobody told or waited for again; where one was not told, all are.
func TestShareIsTakenOverOnce(t *testing.T) {
	var told atomic.Uint64
	r, err := forward.New(forward.Options{Self: "n1", Lease: func() forward.Lease { return forward.Lease{Holder: "n1", Holding: true} }})
	if err != nil {
		t.Fatal(err)
	}
	forward.Handle(r, forward.LoadOffer, func(context.Context, forward.Asker, gang.Wanted) (gang.Offer, error) { return gang.Offer{}, nil })
	forward.Handle(r, forward.LoadEnd, func(context.Context, forward.Asker, gang.End) (forward.None, error) { return forward.None{}, nil })
	forward.Handle(r, forward.LoadRedeal, func(_ context.Context, _ forward.Asker, x gang.Redeal) (forward.None, error) {
		told.Add(1)
		return forward.None{}, x.Check()
	})
	text, err := calm().Encode()
	if err != nil {
		t.Fatal(err)
	}
	plan, err := compile(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct {
		known *gang.Redeal
		note  string
		told  uint64
	}{
		"all of it":        {&gang.Redeal{Turn: 1, From: 230, Shares: []int{512}}, "from 23s on the others carry the share of the lost", 0},
		"a part of it":     {&gang.Redeal{Turn: 1, From: 230, Shares: []int{384, 128}}, "from 23s on the others carry the share of the lost, but 25 % of the plan, which they may not send", 0},
		"nobody was told":  {nil, "from 1m4s on the others carry the share of the lost", 1},
		"a turn before":    {&gang.Redeal{Turn: 0, From: 230, Shares: []int{512}}, "from 1m4s on", 1},
		"what is no share": {&gang.Redeal{Turn: 1, From: 1 << 40, Shares: []int{512}}, "from 1m4s on", 1},
	} {
		if x.known != nil {
			x.known.Run = event.NewLoadID("uid:1", "k")
		}
		told.Store(0)
		going := &part{host: "n1", share: 1, most: 1000, stage: gang.Running, redealt: x.known, shelf: stat.NewShelf(1, 0, stat.MaxShelf)}
		if err := going.shelf.Put(stat.Frame{At: 600, Span: 600, Bank: stat.NewBank(1, 0).Append(nil)}); err != nil {
			t.Fatal(err)
		}
		d := &drive{id: event.NewLoadID("uid:1", "k"), news: make(chan struct{}), c: plan, l: &Loads{o: Options{Remote: r, Members: func() []cluster.NodeID { return []cluster.NodeID{"n1"} }}}, parts: []*part{going, {host: "n1", share: 1, lost: "killed"}}}
		d.redistribute(t.Context(), event.LoadRun{Run: d.id}, 1)
		if len(d.notes) != 1 || !strings.HasPrefix(d.notes[0], x.note) || len(d.marks) != 1 || told.Load() != x.told {
			t.Errorf("%s: %q, %+v, told %d times, want %q", name, d.notes, d.marks, told.Load(), x.note)
		}
	}
}

// TestMuteHostIsLeftOut: a host that cannot answer while hosts are made ready is left out, and not
// waited for as one that has something to do.
func TestMuteHostIsLeftOut(t *testing.T) {
	var waits atomic.Bool
	r, err := forward.New(forward.Options{Self: "n1", Lease: func() forward.Lease { return forward.Lease{Holder: "n1", Holding: true} }})
	if err != nil {
		t.Fatal(err)
	}
	forward.Handle(r, forward.LoadPrepare, func(context.Context, forward.Asker, gang.Prepare) (gang.Prepared, error) {
		if waits.Load() {
			return gang.Prepared{Waits: "3 chunks that run"}, nil
		}
		return gang.Prepared{}, api.Errorf(api.CodeNotReady, "starting")
	})
	c := newCluster(t, anywhere())
	l := c.holder(t)
	l.o.Remote, l.mute = r, 100*time.Millisecond
	d := l.begin(event.NewLoadID("uid:1", "k"), 1)
	b := event.LoadRun{Run: d.id, Bundle: cluster.Hash{1}, Slices: []event.LoadSlice{{Host: "n1", Share: 1}}}
	_, failed, _, err := d.prepare(t.Context(), b, time.Now().Add(time.Minute))
	if err != nil || !strings.Contains(failed["n1"], "no answer") || !strings.Contains(failed["n1"], "starting") {
		t.Errorf("%v, %v", failed, err)
	}
	waits.Store(true)
	if _, failed, _, err := d.prepare(t.Context(), b, time.Now().Add(time.Second)); err != nil || failed["n1"] != "not ready in time" {
		t.Errorf("%v, %v", failed, err)
	}
}

// TestStopWhileHostsAreHeld: who waits for hosts hears that it is to stop.
func TestStopWhileHostsAreHeld(t *testing.T) {
	c := newCluster(t, anywhere())
	l := c.holder(t)
	c.running.Store(1)
	if _, err := c.host.Prepare(gang.Prepare{Run: event.NewLoadID("uid:1", "before"), Attempt: 1, Owner: "uid:1", Bundle: cluster.Hash{1}, Shares: []int{1}}); err != nil {
		t.Fatal(err)
	}
	id, err := c.submit(t, l, "k", calm())
	if err != nil {
		t.Fatal(err)
	}
	term(t, l, 1)
	var f follower
	f.until(t, l, id, "it waits", func(x api.LoadLive) bool { return strings.Contains(x.Doing, "is held for") })
	if _, err := l.StopLoad(t.Context(), "uid:1", id, api.LoadStopRequest{Reason: "enough"}); err != nil {
		t.Fatal(err)
	}
	if b := c.state(t, l, id, event.LoadEnded); b.Verdict != "stopped" {
		t.Errorf("%s, %s", b.Verdict, b.Why)
	}
}

// TestStopBeforeItsTurn: a test that waits for another one ends when it is stopped, not when
// its turn comes.
func TestStopBeforeItsTurn(t *testing.T) {
	c := newCluster(t, anywhere())
	l := c.holder(t)
	c.running.Store(1) // the first one waits for a chunk
	first, err := c.submit(t, l, "first", calm())
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.submit(t, l, "second", calm())
	if err != nil {
		t.Fatal(err)
	}
	term(t, l, 1)
	var f follower
	f.until(t, l, first, "it waits", func(x api.LoadLive) bool { return strings.Contains(x.Doing, "1 chunks") })
	r, err := l.StopLoad(t.Context(), "uid:1", second, api.LoadStopRequest{Reason: "enough"})
	if err != nil || r.State != event.LoadEnded || r.Verdict != "stopped" || r.Why != "enough" {
		t.Errorf("%+v, %v", r, err)
	}
	if now, _ := l.run(first); !now.Open() {
		t.Errorf("the first one has ended: %s", now.Why)
	}
}

// TestOneOwner: nobody takes all the places in which tests wait.
func TestOneOwner(t *testing.T) {
	c := newCluster(t, slice.Allowed{Enabled: true, Owners: []string{"*"}, Targets: map[string]guard.Limits{"127.0.0.1:9": {}}})
	l := c.holder(t)
	for i := range maxOwn {
		if _, err := c.submit(t, l, fmt.Sprint(i), calm()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.submit(t, l, "more", calm()); err == nil || !strings.Contains(err.Error(), "8 load tests of uid:1 have not ended") {
		t.Errorf("one more: %v", err)
	}
	text, err := calm().Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.SubmitLoad(t.Context(), "uid:2", api.LoadRequest{Key: "k", Bundle: c.put(text)}); err != nil {
		t.Errorf("of another owner: %v", err)
	}
}

// TestHolderAgain: a holder that lost the lease meanwhile tells what came of a test, not how
// far it was itself.
func TestHolderAgain(t *testing.T) {
	c := newCluster(t, anywhere())
	l := c.holder(t)
	c.running.Store(1)
	id, err := c.submit(t, l, "k", calm())
	if err != nil {
		t.Fatal(err)
	}
	end := term(t, l, 1)
	var f follower
	f.until(t, l, id, "it waits", func(x api.LoadLive) bool { return strings.Contains(x.Doing, "1 chunks") })
	end()
	other := c.holder(t)
	if err := other.begin(id, 2).end(t.Context(), "failed", "by another holder"); err != nil {
		t.Fatal(err)
	}
	if x := f.ask(t, l, id); x.State != event.LoadEnded || x.Next != endPosition {
		t.Errorf("%+v", x)
	}
}

// TestHostLooksAtOwner: a host has its own list of owners in mind when it is told to begin,
// not only when it is asked before.
func TestHostLooksAtOwner(t *testing.T) {
	c := newCluster(t, anywhere())
	text, err := calm().Encode()
	if err != nil {
		t.Fatal(err)
	}
	run, h := event.NewLoadID("uid:2", "k"), c.put(text)
	_, err = c.host.Prepare(gang.Prepare{Run: run, Attempt: 1, Owner: "uid:2", Bundle: h, Shares: []int{1}})
	if err != nil {
		t.Fatal(err)
	}
	if x := c.counted(t, run, gang.Broken); !strings.Contains(x.Why, "does not name uid:2") {
		t.Errorf("%+v", x)
	}
}

// counted asks the host until a slice is as far as that.
func (c *cluster1) counted(t *testing.T, run event.LoadID, want gang.Stage) gang.Counted {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		x := c.host.Counted(ctx, gang.Ask{Run: run, Wait: 100})
		if x.Stage == want {
			return x
		}
		if ctx.Err() != nil || x.Stage == gang.Broken {
			t.Fatalf("%+v, want %s", x, want)
		}
	}
}

// TestNewHolderHasWhatSetupLeft: the holder that begins what another one had made ready
// hands on what setup extracted.
func TestNewHolderHasWhatSetupLeft(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"token":"t0k"}`) }))
	defer target.Close()
	allowed := anywhere()
	allowed.Targets = map[string]guard.Limits{strings.TrimPrefix(target.URL, "http://"): {}}
	c := newCluster(t, allowed)
	l := c.holder(t)
	b := &bundle.Bundle{Scenario: `
traffic.main = { flow = "main", rate = 1, for = "1s" }
[[flow.setup]]
get = "` + target.URL + `/setup"
extract.token = { json = "$.token" }
[[flow.main]]
get = "` + target.URL + `/"
auth = { bearer = "${token}" }
`}
	id, err := c.submit(t, l, "k", b)
	if err != nil {
		t.Fatal(err)
	}
	d := l.begin(id, 2)
	r, _ := l.run(id)
	if _, err := c.host.Prepare(gang.Prepare{Run: id, Attempt: 1, Owner: "uid:1", Bundle: r.Bundle, Shares: []int{1}}); err != nil {
		t.Fatal(err)
	}
	c.counted(t, id, gang.Ready)
	d.parts = []*part{{host: "n1"}}
	if found, extracted := d.find(t.Context()); found[0].Stage != gang.Ready || len(extracted) != 1 || string(extracted[0]) != "t0k" {
		t.Errorf("%v, %q", found, extracted)
	}
}

// TestSilentHostHolds: a host whose counts no holder is known to have sends nothing after a
// while, though it is asked all the time; it goes on when they are taken again.
func TestSilentHostHolds(t *testing.T) {
	var hits atomic.Uint64
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits.Add(1) }))
	defer target.Close()
	allowed := anywhere()
	allowed.Targets = map[string]guard.Limits{strings.TrimPrefix(target.URL, "http://"): {}}
	c := newCluster(t, allowed)
	text, err := (&bundle.Bundle{URL: &bundle.URL{URL: target.URL, Rate: 50, Users: 5, Seconds: 600}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	run := event.NewLoadID("uid:1", "k")
	const limit = 1500 * time.Millisecond
	if _, err := c.host.Prepare(gang.Prepare{Run: run, Attempt: 1, Owner: "uid:1", Bundle: c.put(text), Shares: []int{1}, Fence: int(limit / time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	c.counted(t, run, gang.Ready)
	if err := c.host.Start(gang.Start{Run: run, Attempt: 1, At: slice.Clock()}); err != nil {
		t.Fatal(err)
	}
	after := uint64(0)
	ask := func(take bool) {
		x := c.host.Counted(t.Context(), gang.Ask{Run: run, After: after, Wait: 50})
		if n := len(x.Frames); take && n > 0 {
			after = x.Frames[n-1].Last + 1
		}
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !ok(); {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d requests", what, hits.Load())
			}
		}
	}
	until("it sends", func() bool { ask(true); return hits.Load() > 100 })
	last, at := hits.Load(), time.Now()
	until("it holds", func() bool {
		ask(false)
		time.Sleep(10 * time.Millisecond)
		if now := hits.Load(); now != last {
			last, at = now, time.Now()
		}
		return time.Since(at) > 2*time.Second
	})
	until("it goes on", func() bool { ask(true); return hits.Load() > last+20 })
	c.host.End(gang.End{Run: run})
	c.counted(t, run, gang.Done)
	if !c.endSays(t, run, "it sent nothing for") {
		t.Error("its end does not say that it held")
	}
}

// endSays reports whether the end of a slice has a text in what slowed it.
func (c *cluster1) endSays(t *testing.T, run event.LoadID, text string) bool {
	t.Helper()
	for after := uint64(0); ; {
		x := c.host.Counted(t.Context(), gang.Ask{Run: run, After: after})
		if x.End != nil {
			return strings.Contains(x.End.Slowed, text)
		}
		if len(x.Frames) == 0 {
			return false
		}
		after = x.Frames[len(x.Frames)-1].Last + 1
	}
}
