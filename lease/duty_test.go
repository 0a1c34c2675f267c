package lease

import (
	"reflect"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

var profiles = []cluster.Profile{cluster.ProfileClassic, cluster.ProfileLAN, cluster.ProfileFast}

// at is an event and its time.
type at struct {
	after time.Duration
	ev    Event
}

// renewal is a renewal of the holder of three voters.
func renewal(term cluster.Term, c cluster.VoterConfig) Message {
	return Message{Phase: Renew, Term: term, Round: 1, Config: c}
}

func better10(p PeerChanged) PeerChanged {
	p.Node, p.Priority, p.Eligible, p.Alive, p.CaughtUp = "b", 10, true, true, true
	return p
}

// TestDutyRule is the rule by itself: what one host that is "m" with priority
// 50 makes of what it sees. wait is Suspect + Grace.
func TestDutyRule(t *testing.T) {
	for _, profile := range profiles {
		tm := timing(t, profile)
		wait, lease := tm.Suspect+tm.Grace, tm.Lease
		none, own := Duty{}, Duty{Publisher: "m", Publishing: true}
		by := func(n cluster.NodeID, term cluster.Term) Duty { return Duty{Publisher: n, ByLease: true, Term: term} }
		quorum := cluster.VoterConfig{Epoch: 1, Voters: []cluster.NodeID{"b", "c", "m"}, Mode: cluster.ModeQuorum}
		others := cluster.VoterConfig{Epoch: 1, Voters: []cluster.NodeID{"b", "c", "d"}, Mode: cluster.ModeQuorum}
		alone := cluster.VoterConfig{Epoch: 1, Voters: []cluster.NodeID{"m"}, Mode: cluster.ModeSingle}
		two := cluster.VoterConfig{Epoch: 1, Voters: []cluster.NodeID{"b", "m"}, Mode: cluster.ModeAvailable}
		seen := at{0, Receive{From: "b", Msg: renewal(3, quorum)}}
		over := lease + wait // after seen
		live := at{0, better10(PeerChanged{})}
		release := func(to cluster.NodeID) Event {
			return Receive{From: "b", Msg: Message{Phase: ReleaseTerm, Term: 3, Successor: to, Released: &Release{Term: 3, Holder: "b", Successor: to}}}
		}
		for _, c := range []struct {
			name   string
			o      Options
			events []at
			when   time.Duration
			want   Duty
		}{
			{"no configuration, too early", Options{}, nil, wait - 1, none},
			{"no configuration", Options{}, nil, wait, own},
			{"quorum without a majority", Options{Vote: VoteRecord{Config: quorum}}, nil, wait, own},
			{"available, the other not heard", Options{Vote: VoteRecord{Config: two}}, nil, wait + 2*lease, Duty{"m", true, true, 1}},
			{"single, fresh", Options{Vote: VoteRecord{Config: alone}, Fresh: true}, nil, 0, Duty{"m", true, true, 1}},
			{"single, in quarantine", Options{Vote: VoteRecord{Config: alone}}, nil, wait + 2*lease, Duty{"m", true, true, 1}},
			{"no voter", Options{Vote: VoteRecord{Config: others}}, nil, wait, own},
			{"witness", Options{Witness: true}, nil, wait, none},
			{"witness beside a worse host", Options{Witness: true}, []at{{0, PeerChanged{Node: "z", Priority: 90, Eligible: true, Alive: true}}}, wait, Duty{Publisher: "z"}},
			{"failing", Options{}, []at{{0, SelfCheck{Reason: "disk"}}}, wait, none},
			{"failing, then good", Options{}, []at{{0, SelfCheck{Reason: "disk"}}, {wait, SelfCheck{OK: true}}}, wait, own},
			{"begins to fail with nobody else", Options{}, []at{{wait, SelfCheck{Reason: "disk"}}}, 2 * wait, own},
			{"begins to fail, a worse one stands", Options{}, []at{
				{wait, SelfCheck{Reason: "disk"}},
				{wait, PeerChanged{Node: "z", Priority: 90, Eligible: true, Alive: true, Publishing: true}},
			}, wait, Duty{Publisher: "z"}},
			{"leaving", Options{}, []at{{0, StepDown{Leaving: true}}}, wait, none},
			{"removed", Options{}, []at{{wait, PeerChanged{Node: "m", Priority: 50, Gone: true}}}, wait, none},
			{"better host alive", Options{}, []at{live}, wait, Duty{Publisher: "b"}},
			{"better host silent", Options{}, []at{{0, PeerChanged{Node: "b", Priority: 10, Eligible: true}}}, wait, own},
			{"better host not eligible", Options{}, []at{{0, PeerChanged{Node: "b", Priority: 10, Alive: true}}}, wait, own},
			{"better host gone", Options{}, []at{{0, better10(PeerChanged{Gone: true})}}, wait, own},
			{"worse host alive", Options{}, []at{{0, PeerChanged{Node: "b", Priority: 51, Eligible: true, Alive: true, Publishing: true}}}, wait, own},
			{"equal priority, lower name", Options{}, []at{{0, PeerChanged{Node: "a", Priority: 50, Eligible: true, Alive: true}}}, wait, Duty{Publisher: "a"}},
			{"equal priority, higher name", Options{}, []at{{0, PeerChanged{Node: "z", Priority: 50, Eligible: true, Alive: true}}}, wait, own},
			{"a better host comes and does not publish", Options{}, []at{{wait, live.ev}}, 2 * wait, own},
			{"a better host comes and publishes", Options{}, []at{{wait, better10(PeerChanged{Publishing: true})}}, wait, Duty{Publisher: "b"}},
			{"the better host falls silent", Options{}, []at{live, {wait, PeerChanged{Node: "b", Priority: 10, Eligible: true}}}, wait, own},
			{"lease visible", Options{Vote: VoteRecord{Config: quorum}}, []at{seen}, lease - 1, by("b", 3)},
			{"lease visible to no voter", Options{Vote: VoteRecord{Config: others}}, []at{{0, Receive{From: "b", Msg: renewal(3, others)}}}, lease - 1, by("b", 3)},
			{"lease gone, too early", Options{Vote: VoteRecord{Config: quorum}}, []at{seen}, over - 1, Duty{Publisher: "b"}},
			{"lease gone", Options{Vote: VoteRecord{Config: quorum}}, []at{seen}, over, own},
			{"lease gone, its holder alive", Options{Vote: VoteRecord{Config: quorum}}, []at{seen, live}, over, Duty{Publisher: "b"}},
			{"lease comes to a publisher", Options{Vote: VoteRecord{Config: quorum}}, []at{{wait, seen.ev}}, wait, by("b", 3)},
			{"a vote is no lease", Options{Vote: VoteRecord{Config: quorum}, Fresh: true}, []at{
				{wait, Receive{From: "b", Msg: Message{Phase: Vote, Term: 9, Round: 1, Config: quorum}}},
			}, wait, own},
			{"holder by its own word", Options{}, []at{{0, better10(PeerChanged{Holds: 4})}}, wait, by("b", 4)},
			{"a worse holder by its own word", Options{}, []at{{wait, PeerChanged{Node: "z", Priority: 90, Alive: true, Holds: 4}}}, wait, by("z", 4)},
			{"two by their own word", Options{}, []at{{0, better10(PeerChanged{Holds: 4})}, {0, PeerChanged{Node: "z", Priority: 90, Alive: true, Holds: 5}}}, wait, by("z", 5)},
			{"no holder any more by its own word", Options{}, []at{
				{0, PeerChanged{Node: "z", Priority: 90, Alive: true, Holds: 4}}, {wait, PeerChanged{Node: "z", Priority: 90, Alive: true}},
			}, 2*wait - 1, Duty{Publisher: "z"}},
			{"no holder any more by its own word, long ago", Options{}, []at{
				{0, PeerChanged{Node: "z", Priority: 90, Alive: true, Holds: 4}}, {wait, PeerChanged{Node: "z", Priority: 90, Alive: true}},
			}, 2 * wait, own},
			{"holder by its own word, falls silent", Options{}, []at{
				{0, PeerChanged{Node: "z", Priority: 90, Alive: true, Holds: 4}}, {wait, PeerChanged{Node: "z", Priority: 90, Holds: 4}},
			}, wait, own},
			{"holder by its own word, silent", Options{}, []at{{0, PeerChanged{Node: "z", Holds: 4}}}, wait, own},
			{"holder by its own word, older than one seen", Options{Vote: VoteRecord{Config: quorum}}, []at{
				seen, {over, PeerChanged{Node: "z", Priority: 90, Alive: true, Holds: 2}},
			}, over, own},
			{"holder by its own word, which released", Options{Vote: VoteRecord{Config: quorum}}, []at{
				seen, {0, better10(PeerChanged{Holds: 3})}, {1, release("c")},
			}, 1, Duty{Publisher: "c"}},
			{"released to this host", Options{Vote: VoteRecord{Config: quorum}}, []at{seen, {1, release("m")}}, 1, own},
			{"released to this host, which fails", Options{Vote: VoteRecord{Config: quorum}}, []at{
				{0, SelfCheck{Reason: "disk"}}, seen, {1, release("m")},
			}, 1, Duty{Publisher: "b"}},
			{"released to another", Options{Vote: VoteRecord{Config: quorum}}, []at{seen, {1, release("c")}}, wait, Duty{Publisher: "c"}},
			{"released to nobody", Options{Vote: VoteRecord{Config: quorum}}, []at{seen, {1, release("")}}, wait, Duty{Publisher: "b"}},
			{"released to another, who never came", Options{Vote: VoteRecord{Config: quorum}}, []at{seen, {1, release("c")}}, wait + 1, own},
			{"slept before the rule applied", Options{}, []at{{wait - 1, Suspended{}}}, 2*wait - 2, none},
			{"slept", Options{}, []at{{wait - 1, Suspended{}}}, 2*wait - 1, own},
			{"slept while it published", Options{}, []at{{wait, Suspended{}}}, wait, own},
		} {
			t.Run(string(profile)+"/"+c.name, func(t *testing.T) {
				c.o.Self, c.o.Priority, c.o.Timing, c.o.ModeSetting = "m", 50, tm, cluster.ModeAuto
				if got := ruleAt(t, c.o, c.events, c.when); got != c.want {
					t.Errorf("at %s: %s, want %s", c.when, got, c.want)
				}
			})
		}
	}
}

// ruleAt plays events, ticks at every deadline up to when, and returns the
// duty then, after checking that all ways to ask agree.
func ruleAt(t *testing.T, o Options, events []at, when time.Duration) Duty {
	t.Helper()
	s, err := New(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	var told Duty
	now := time.Duration(0)
	step := func(ev Event) {
		var acts []Action
		s, acts = Step(s, ev, now)
		for _, a := range acts {
			if d, ok := a.(Duty); ok {
				told = d
			}
		}
	}
	until := func(end time.Duration) {
		for range 10_000 {
			d := Deadline(s)
			if d > end {
				now = end
				return
			}
			now = max(now+1, d)
			step(Tick{})
		}
		t.Fatalf("ticks without end at %s", now)
	}
	step(Tick{})
	for _, e := range events {
		if e.after > now {
			until(e.after)
		}
		step(e.ev)
	}
	until(when)
	st := s.Status()
	if told.Publisher != st.Publisher || told.Publishing != st.Publishing || told.Why() != st.PublishWhy || MayPublish(s, now) != st.Publishing {
		t.Errorf("told %s, status %q %t %q, may publish %t", told, st.Publisher, st.Publishing, st.PublishWhy, MayPublish(s, now))
	}
	return told
}

// TestMayPublishWithoutStep: the answer at a later time is that of a step then.
func TestMayPublishWithoutStep(t *testing.T) {
	tm := timing(t, cluster.ProfileLAN)
	s, err := New(Options{Self: "m", Timing: tm, ModeSetting: cluster.ModeAuto}, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, _ = Step(s, Tick{}, 0)
	if wait := tm.Suspect + tm.Grace; MayPublish(s, wait-1) || !MayPublish(s, wait) {
		t.Error("the answer does not follow the time")
	}
}

func TestStaleClaim(t *testing.T) {
	s, _ := holder(t)
	if !StaleClaim(s, 0) || StaleClaim(s, 1) || StaleClaim(s, 2) {
		t.Error("a claim is to be refused exactly below the valid lease's term")
	}
	s, _ = Step(s, SelfCheck{Reason: "disk"}, s.now)
	if StaleClaim(s, 0) {
		t.Error("a claim is refused though no lease is valid")
	}
}

// TestDutyLeavesLeaseAlone: the lease decides the same whatever the duty is.
func TestDutyLeavesLeaseAlone(t *testing.T) {
	s, now := holder(t)
	other := s
	other.duty, other.unseen = Duty{Publisher: "c"}, -time.Hour
	for i, ev := range []Event{
		Tick{},
		PeerChanged{Node: "b", Priority: 2, Alive: true, Eligible: true, CaughtUp: true, Publishing: true, Holds: 9},
		StepDown{Reason: "x"},
		Quiesced{Term: 1},
		Tick{},
		Suspended{},
		Tick{},
		SelfCheck{Reason: "y"},
		SelfCheck{OK: true},
		Tick{},
	} {
		now += 700 * time.Millisecond
		var a, b []Action
		s, a = Step(s, ev, now)
		other, b = Step(other, ev, now)
		if a, b = leaseOnly(a), leaseOnly(b); !reflect.DeepEqual(a, b) {
			t.Fatalf("event %d: %v, then %v", i, a, b)
		}
	}
}

func leaseOnly(acts []Action) []Action {
	var out []Action
	for _, a := range acts {
		if _, ok := a.(Duty); !ok {
			out = append(out, a)
		}
	}
	return out
}

// checkDuty is what must hold of the duty after every step.
func checkDuty(t *testing.T, s *State, acts []Action, now time.Duration) {
	t.Helper()
	for i, a := range acts {
		if d, ok := a.(Duty); ok && (i > 0 || d != s.duty) {
			t.Fatalf("action %d is %s, the state has %s", i, d, s.duty)
		}
	}
	st := s.Status()
	best, _ := s.standing()
	switch {
	case st.Publishing && (s.witness || s.gone):
		t.Fatalf("publishes: witness %t, removed %t", s.witness, s.gone)
	case st.Publishing && st.Publisher != s.self, MayPublish(*s, now) != st.Publishing:
		t.Fatalf("publishing %t, publisher %q, may publish %t", st.Publishing, st.Publisher, MayPublish(*s, now))
	case st.Holder != "" && st.Publisher != st.Holder:
		t.Fatalf("sees the lease of %s and believes %q to publish", st.Holder, st.Publisher)
	case st.Holder == "" && s.declared() == nil && best == nil && s.fit() && now >= s.standsIn() && !st.Publishing:
		t.Fatalf("alone since %s and does not publish at %s", s.unseen, now)
	case st.Holder == "" && s.declared() == nil && best != nil && now >= s.standsIn() && st.Publisher == "":
		t.Fatalf("sees %s and believes nobody to publish", best.Node)
	}
}
