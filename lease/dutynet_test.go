package lease

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

// dutyNet is a small cluster of cores whose time passes evenly. Its first host
// is "a" with the best priority, the next "b", and so on.
type dutyNet struct {
	t      *testing.T
	timing Timing
	tick   time.Duration // how finely it looks, and how long a message travels
	now    time.Duration
	hosts  []*dutyHost
	cut    func(from, to *dutyHost) bool // nil: nothing is
	// gap is how long nobody of a group published, at most and now.
	groups map[string]*dutyGroup
}

type dutyHost struct {
	id       cluster.NodeID
	priority uint32
	state    State
	down     bool
	deaf     bool // no renewal reaches it
	draining bool
	leaving  bool
	heard    map[cluster.NodeID]time.Duration
	told     map[cluster.NodeID]PeerChanged
	in       []Receive
	after    []Event // own events of the next tick
	changes  int     // of the publisher that it believes in
}

type dutyGroup struct {
	hosts      []*dutyHost
	since, max time.Duration
}

// newDutyNet starts n hosts, the first voters of which vote, if any.
func newDutyNet(t *testing.T, p cluster.Profile, n, voters int, equal bool) *dutyNet {
	t.Helper()
	w := &dutyNet{t: t, timing: timing(t, p), groups: map[string]*dutyGroup{}}
	w.timing.MinTenure = time.Hour
	w.tick = w.timing.Heartbeat / 100
	var c cluster.VoterConfig
	for i := range n {
		h := &dutyHost{id: cluster.NodeID(string(rune('a' + i))), priority: uint32(10 * (i + 1))}
		if equal {
			h.priority = 10
		}
		w.hosts = append(w.hosts, h)
		if i < voters {
			c.Voters = append(c.Voters, h.id)
		}
	}
	if voters > 0 {
		c.Epoch, c.Mode = 1, cluster.AutoMode(voters)
	}
	for _, h := range w.hosts {
		w.boot(h, VoteRecord{Config: c}, true)
	}
	w.beats() // they know each other before anyone stands
	return w
}

func (w *dutyNet) boot(h *dutyHost, v VoteRecord, fresh bool) {
	s, err := New(Options{Self: h.id, Priority: h.priority, Timing: w.timing, ModeSetting: cluster.ModeAuto, Vote: v, Fresh: fresh}, w.now)
	if err != nil {
		w.t.Fatal(err)
	}
	h.state, h.down, h.heard, h.told, h.in, h.after = s, false, map[cluster.NodeID]time.Duration{}, map[cluster.NodeID]PeerChanged{}, nil, nil
}

func (w *dutyNet) step(h *dutyHost, ev Event) {
	var acts []Action
	h.state, acts = Step(h.state, ev, w.now)
	for _, a := range acts {
		switch a := a.(type) {
		case Send:
			for _, to := range w.hosts {
				if to.id == a.To && !to.down && !w.lost(h, to) && (!to.deaf || a.Msg.Phase != Renew) {
					to.in = append(to.in, Receive{From: h.id, Msg: a.Msg})
				}
			}
		case Acquired:
			h.after = append(h.after, TermReady{Term: a.Term, Epoch: a.Config.Epoch})
		case ConfigStable:
			h.after = append(h.after, TermReady{Term: a.Term, Epoch: a.Config.Epoch})
		case Quiesce:
			h.after = append(h.after, Quiesced{Term: a.Term})
		case Duty:
			h.changes++
		}
	}
	st := h.state.Status()
	if st.Holder != "" && st.Publisher != st.Holder {
		w.t.Fatalf("at %s: %s sees the lease of %s and believes %q to publish", w.now, h.id, st.Holder, st.Publisher)
	}
}

func (w *dutyNet) lost(from, to *dutyHost) bool { return w.cut != nil && w.cut(from, to) }

// run lets d pass.
func (w *dutyNet) run(d time.Duration) {
	for end := w.now + d; w.now < end; {
		w.now += w.tick
		for _, h := range w.hosts {
			if h.down {
				continue
			}
			in, after := h.in, h.after
			h.in, h.after = nil, nil
			for _, e := range after {
				w.step(h, e)
			}
			for _, e := range in {
				w.step(h, e)
			}
			if w.now >= Deadline(h.state) {
				w.step(h, Tick{})
			}
		}
		if w.now%w.timing.Heartbeat < w.tick {
			w.beats()
		}
		w.watch()
	}
}

// beats lets every host tell every other how it is, and notice silence.
func (w *dutyNet) beats() {
	for _, from := range w.hosts {
		if from.down {
			continue
		}
		st := from.state.Status()
		e := PeerChanged{
			Node: from.id, Priority: from.priority, Eligible: !from.draining && !from.leaving, Alive: true, CaughtUp: true,
			Publishing: st.Publishing,
		}
		if st.Holder == from.id {
			e.Holds = st.Term
		}
		for _, to := range w.hosts {
			if to == from || to.down || w.lost(from, to) {
				continue
			}
			to.heard[from.id] = w.now
			w.tell(to, e)
		}
	}
	for _, h := range w.hosts {
		for n, e := range h.told {
			if !h.down && e.Alive && w.now-h.heard[n] >= w.timing.Suspect+w.timing.Grace {
				e.Alive, e.CaughtUp = false, false
				w.tell(h, e)
			}
		}
	}
}

func (w *dutyNet) tell(h *dutyHost, e PeerChanged) {
	if h.told[e.Node] != e {
		h.told[e.Node] = e
		w.step(h, e)
	}
}

// group begins to watch for how long none of the hosts named publishes.
func (w *dutyNet) group(names string) *dutyGroup {
	g := &dutyGroup{since: -1}
	for _, h := range w.hosts {
		if strings.Contains(names, string(h.id)) {
			g.hosts = append(g.hosts, h)
		}
	}
	w.groups[names] = g
	return g
}

func (w *dutyNet) watch() {
	for _, g := range w.groups {
		switch busy := slices.ContainsFunc(g.hosts, func(h *dutyHost) bool { return !h.down && h.state.duty.Publishing }); {
		case busy:
			g.since = -1
		case g.since < 0:
			g.since = w.now
		}
		if g.since >= 0 {
			g.max = max(g.max, w.now-g.since+w.tick)
		}
	}
}

// publishers names the hosts that publish, and how: "a by lease, d".
func (w *dutyNet) publishers() string {
	var out []string
	for _, h := range w.hosts {
		switch st := h.state.Status(); {
		case h.down || !st.Publishing:
		case st.PublishWhy == PublishByLease:
			out = append(out, string(h.id)+" by lease")
		default:
			out = append(out, string(h.id))
		}
	}
	return strings.Join(out, ", ")
}

func (w *dutyNet) want(when, publishers string) {
	w.t.Helper()
	if got := w.publishers(); got != publishers {
		w.t.Fatalf("%s, at %s: %q publish, want %q", when, w.now, got, publishers)
	}
}

// sides cuts the hosts named off from the rest.
func (w *dutyNet) sides(names string) {
	in := func(h *dutyHost) bool { return strings.Contains(names, string(h.id)) }
	w.cut = func(from, to *dutyHost) bool { return in(from) != in(to) }
}

func (w *dutyNet) host(name string) *dutyHost {
	i := slices.IndexFunc(w.hosts, func(h *dutyHost) bool { return string(h.id) == name })
	return w.hosts[i]
}

// wait is Suspect + Grace, and all is what can lie between the last renewal
// and a publisher by rule.
func (w *dutyNet) wait() time.Duration { return w.timing.Suspect + w.timing.Grace }

func (w *dutyNet) all() time.Duration {
	return w.timing.Lease + w.wait() + w.timing.Heartbeat + time.Second
}

func eachProfile(t *testing.T, f func(t *testing.T, p cluster.Profile)) {
	for _, p := range profiles {
		t.Run(string(p), func(t *testing.T) { f(t, p) })
	}
}

// TestDutyInEveryMode: with one, two and three voters, and with nobody to vote,
// exactly one host of a calm cluster publishes.
func TestDutyInEveryMode(t *testing.T) {
	eachProfile(t, func(t *testing.T, p cluster.Profile) {
		for _, c := range []struct {
			hosts, voters int
			want          string
		}{{1, 1, "a by lease"}, {1, 0, "a"}, {2, 2, "a by lease"}, {3, 3, "a by lease"}, {5, 3, "a by lease"}, {3, 0, "a"}} {
			for _, equal := range []bool{false, true} {
				w := newDutyNet(t, p, c.hosts, c.voters, equal)
				w.run(w.all())
				w.want(fmt.Sprintf("%+v", c), c.want)
				g := w.group("abcde")
				w.run(w.all())
				w.want("later", c.want)
				if g.max != 0 {
					t.Errorf("%+v: nobody published for %s", c, g.max)
				}
			}
		}
	})
}

// TestDutyOnBothSidesOfACut cuts a cluster of five in every way that matters,
// and heals it.
func TestDutyOnBothSidesOfACut(t *testing.T) {
	eachProfile(t, func(t *testing.T, p cluster.Profile) {
		for _, c := range []struct{ side, rest, want string }{
			{"ab", "cde", "a, c by lease"},      // the holder in the minority: it goes on
			{"de", "abc", "a by lease, d"},      // the holder in the majority
			{"e", "abcd", "a by lease, e"},      // one host alone
			{"a", "bcde", "a, b by lease"},      // the holder alone
			{"abcde", "abcde", "a, b, c, d, e"}, // all alone
		} {
			w := newDutyNet(t, p, 5, 5, false)
			w.run(w.all())
			w.want("before", "a by lease")
			w.sides(c.side)
			if c.side == c.rest {
				w.cut = func(*dutyHost, *dutyHost) bool { return true }
			}
			side, rest := w.group(c.side), w.group(c.rest)
			took := time.Duration(0)
			for w.publishers() != c.want && took < 3*w.all() {
				w.run(100 * time.Millisecond)
				took += 100 * time.Millisecond
			}
			w.want("cut "+c.side, c.want)
			w.run(w.all())
			w.want("cut "+c.side+", later", c.want)
			if most := w.all(); side.max > most || rest.max > most {
				t.Errorf("cut %s: nobody published for %s there, %s elsewhere", c.side, side.max, rest.max)
			}
			t.Logf("%s: cut %s|%s: both publish after %s, gap %s and %s", p, c.side, c.rest, took, side.max, rest.max)
			whole := w.group("abcde")
			w.cut = nil
			heal := w.now
			for !strings.HasSuffix(w.publishers(), " by lease") || strings.Contains(w.publishers(), ",") {
				w.run(w.tick)
				if w.now-heal > w.wait()+w.timing.Heartbeat {
					t.Fatalf("cut %s: %q publish %s after the heal", c.side, w.publishers(), w.now-heal)
				}
			}
			only := w.publishers()
			w.run(w.all())
			w.want("healed "+c.side, only)
			if whole.max != 0 {
				t.Errorf("heal of %s: nobody published for %s", c.side, whole.max)
			}
		}
	})
}

// TestDutyHandover: a holder that is asked to go hands the duty over without a
// gap, and the successor has it with the release.
func TestDutyHandover(t *testing.T) {
	eachProfile(t, func(t *testing.T, p cluster.Profile) {
		for _, stop := range []bool{false, true} {
			w := newDutyNet(t, p, 3, 3, false)
			w.run(w.all())
			g := w.group("abc")
			a := w.host("a")
			a.leaving = stop
			w.step(a, StepDown{Reason: "asked", Leaving: stop})
			w.run(2 * w.tick) // flushed, released
			if stop {
				w.run(w.tick) // the release has arrived
				a.down = true
			}
			if !w.host("b").state.Status().Publishing {
				t.Fatal("the successor does not publish with the release")
			}
			w.run(w.wait())
			w.want("handed over", "b by lease")
			if g.max != 0 {
				t.Errorf("stop %t: nobody published for %s", stop, g.max)
			}
		}
	})
}

// TestDutyAfterCrash: the holder falls and the rest has no majority.
func TestDutyAfterCrash(t *testing.T) {
	eachProfile(t, func(t *testing.T, p cluster.Profile) {
		w := newDutyNet(t, p, 3, 3, false)
		w.run(w.all())
		g := w.group("abc")
		w.host("a").down, w.host("b").down = true, true
		w.run(w.all())
		w.want("two of three fell", "c")
		if least, most := w.timing.Lease, w.timing.Lease+w.wait()+w.timing.Heartbeat; g.max > most || g.max < least {
			t.Errorf("nobody published for %s, want %s to %s", g.max, least, most)
		}
		b := w.host("b")
		w.boot(b, b.state.vote, false)
		w.run(3*w.timing.Lease + w.timing.Defer)
		w.want("one came back", "b by lease")
	})
}

// TestDutyDrains: where nobody can hold, a host that publishes and is drained
// goes on until the next one has begun.
func TestDutyDrains(t *testing.T) {
	eachProfile(t, func(t *testing.T, p cluster.Profile) {
		w := newDutyNet(t, p, 3, 0, false)
		w.run(w.all())
		w.want("no voters", "a")
		g := w.group("abc")
		a := w.host("a")
		a.draining = true
		w.step(a, SelfCheck{Reason: "draining"})
		w.want("just drained", "a")
		w.run(3 * w.timing.Heartbeat)
		w.want("drained", "b")
		a.draining = false
		w.step(a, SelfCheck{OK: true})
		w.run(3 * w.timing.Heartbeat)
		w.want("back", "a")
		if g.max != 0 {
			t.Errorf("nobody published for %s", g.max)
		}
	})
}

// TestDutyWhenPeersFlap: links that come and go every few moments never leave
// the cluster without a publisher, and nobody changes its mind more often than
// the links do.
func TestDutyWhenPeersFlap(t *testing.T) {
	eachProfile(t, func(t *testing.T, p cluster.Profile) {
		w := newDutyNet(t, p, 4, 0, false)
		w.run(w.all())
		g := w.group("abcd")
		period := 2 * (w.wait() + w.timing.Heartbeat)
		w.cut = func(from, to *dutyHost) bool {
			return w.now%period < period/2 && (from.id == "a" || to.id == "a")
		}
		for _, h := range w.hosts {
			h.changes = 0
		}
		const rounds = 20
		w.run(rounds * period)
		if g.max != 0 {
			t.Errorf("nobody published for %s", g.max)
		}
		for _, h := range w.hosts {
			if h.changes > 2*rounds {
				t.Errorf("%s changed its mind %d times in %d rounds", h.id, h.changes, rounds)
			}
		}
	})
}

// TestDutyOfADeafFollower: a host that no renewal reaches takes the holder's
// own word, even if it is the better host, and the plain rule once the holder
// is silent.
func TestDutyOfADeafFollower(t *testing.T) {
	eachProfile(t, func(t *testing.T, p cluster.Profile) {
		w := newDutyNet(t, p, 3, 0, false)
		c := cluster.VoterConfig{Epoch: 1, Voters: []cluster.NodeID{"b"}, Mode: cluster.ModeSingle}
		a, b := w.host("a"), w.host("b")
		a.deaf = true
		w.boot(b, VoteRecord{Config: c}, true)
		w.run(2 * w.all())
		if st := a.state.Status(); a.state.holder.Holder != "" || st.Holder != "b" || st.Publisher != "b" || st.PublishWhy != PublishByLease {
			t.Fatalf("the follower sees %q hold and %q publish by %q", st.Holder, st.Publisher, st.PublishWhy)
		}
		w.want("a follower", "b by lease")
		b.down = true
		w.run(w.wait() + 2*w.timing.Heartbeat)
		w.want("the holder fell", "a")
	})
}

// TestDutyInOneWayCuts: however links fail, one way or both, each part of the
// network publishes.
func TestDutyInOneWayCuts(t *testing.T) {
	eachProfile(t, func(t *testing.T, p cluster.Profile) {
		for links := range 64 { // every subset of the six directions between three hosts
			w := newDutyNet(t, p, 3, 3, false)
			w.run(w.timing.Lease)
			dir := func(from, to *dutyHost) int {
				return map[string]int{"ab": 0, "ba": 1, "ac": 2, "ca": 3, "bc": 4, "cb": 5}[string(from.id+to.id)]
			}
			w.cut = func(from, to *dutyHost) bool { return links>>dir(from, to)&1 != 0 }
			w.run(2 * w.all())
			g := w.group("abc")
			w.run(w.all())
			if g.max != 0 {
				t.Errorf("cut %06b: nobody publishes for %s", links, g.max)
			}
			for _, h := range w.hosts {
				i := slices.Index(w.hosts, h)
				alone := !slices.ContainsFunc(w.hosts, func(o *dutyHost) bool { return o != h && (!w.cut(o, h) || !w.cut(h, o)) })
				if alone && !w.hosts[i].state.Status().Publishing {
					t.Errorf("cut %06b: %s is alone and does not publish", links, h.id)
				}
			}
		}
	})
}
