package lease

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

func timing(t testing.TB, p cluster.Profile) Timing {
	t.Helper()
	tm, err := TimingFor(p)
	if err != nil {
		t.Fatal(err)
	}
	return tm
}

func three() cluster.VoterConfig {
	return cluster.VoterConfig{Epoch: 1, Voters: []cluster.NodeID{"a", "b", "c"}, Mode: cluster.ModeQuorum}
}

func TestProfiles(t *testing.T) {
	for _, p := range []cluster.Profile{cluster.ProfileClassic, cluster.ProfileLAN, cluster.ProfileFast} {
		if err := timing(t, p).Validate(); err != nil {
			t.Errorf("%s: %v", p, err)
		}
	}
	if _, err := TimingFor("slow"); !errors.Is(err, ErrTiming) {
		t.Errorf("unknown profile: %v", err)
	}
}

func TestTimingRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Timing){
		"no lease":          func(tm *Timing) { tm.Lease = 0 },
		"guard above lease": func(tm *Timing) { tm.VoteGuard = 2 * tm.Lease },
		"rare renewals":     func(tm *Timing) { tm.Renew = tm.Lease / 2 },
		"long round":        func(tm *Timing) { tm.Round = tm.VoteGuard },
		"margin":            func(tm *Timing) { tm.MarginPercent = 51 },
		"act margin":        func(tm *Timing) { tm.ActMargin = tm.VoteGuard },
		"no retry":          func(tm *Timing) { tm.Retry = 0 },
		"cap":               func(tm *Timing) { tm.PreemptCap = 0 },
	} {
		tm := timing(t, cluster.ProfileLAN)
		spoil(&tm)
		if err := tm.Validate(); !errors.Is(err, ErrTiming) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	good := Options{Self: "a", Timing: timing(t, cluster.ProfileLAN), ModeSetting: cluster.ModeAuto, Vote: VoteRecord{Config: three()}}
	if _, err := New(good, 0); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*Options){
		"self":        func(o *Options) { o.Self = "A b" },
		"lease":       func(o *Options) { o.Timing = Timing{} },
		"mode":        func(o *Options) { o.ModeSetting = cluster.ModeSingle },
		"vote record": func(o *Options) { o.Vote.Config.Voters = []cluster.NodeID{"b", "a"} },
	} {
		o := good
		spoil(&o)
		if _, err := New(o, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// holder returns a host that holds with the acks of b.
func holder(t testing.TB) (State, time.Duration) {
	s, err := New(Options{
		Self: "a", Priority: 1, Timing: timing(t, cluster.ProfileLAN), ModeSetting: cluster.ModeAuto,
		Vote: VoteRecord{Config: three()}, Fresh: true,
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, _ = Step(s, PeerChanged{Node: "b", Priority: 2, Eligible: true, Alive: true, CaughtUp: true}, 0)
	s, _ = Step(s, PeerChanged{Node: "c", Priority: 3, Eligible: true, Alive: true, CaughtUp: true}, 0)
	now := time.Millisecond
	for _, p := range []Phase{PreVoteReply, VoteReply, RenewReply} {
		s, _ = Step(s, Receive{From: "b", Msg: Message{Phase: p, Term: 1, Round: s.round, Granted: true, Config: s.vote.Config}}, now)
	}
	if !MayAct(s, 1, now) {
		t.Fatalf("does not hold: %+v", s.Status())
	}
	return s, now
}

func TestMayAct(t *testing.T) {
	s, now := holder(t)
	until := s.Status().Until
	for _, c := range []struct {
		term cluster.Term
		at   time.Duration
		want bool
	}{
		{1, now, true},
		{2, now, false},
		{0, now, false},
		{1, until - s.timing.ActMargin - 1, true},
		{1, until - s.timing.ActMargin, false},
		{1, until + time.Hour, false},
	} {
		if got := MayAct(s, c.term, c.at); got != c.want {
			t.Errorf("MayAct(%d, %s) = %t", c.term, c.at, got)
		}
	}
}

// TestHostileMessages: nothing of this changes a holder or makes a vote.
func TestHostileMessages(t *testing.T) {
	s, now := holder(t)
	bad := cluster.VoterConfig{Epoch: 9, Term: 9, Voters: []cluster.NodeID{"z", "z"}, Mode: "x"}
	for _, m := range []Message{
		{},
		{Phase: "nonsense", Term: 1},
		{Phase: Vote, Term: 0},
		{Phase: Renew, Term: 0},
		{Phase: Renew, Term: 1, Config: three()},
		{Phase: Vote, Term: 99, Config: three()},
		{Phase: RenewReply, Term: 1, Round: 77, Granted: true},
		{Phase: RenewReply, Term: 1, Granted: false, Config: bad},
		{Phase: ReleaseTerm, Term: 1},
		{Phase: ReleaseTerm, Term: 1, Released: &Release{Term: 1, Holder: "a", Successor: "c"}},
	} {
		got, acts := Step(s, Receive{From: "c", Msg: m}, now)
		for _, a := range acts {
			switch a := a.(type) {
			case Lost, Persist, Acquired:
				t.Errorf("%+v caused %s", m, a)
			case Send:
				if a.Msg.Granted {
					t.Errorf("%+v was granted", m)
				}
			}
		}
		if m.Config.Term < 9 && !MayAct(got, 1, now) {
			t.Errorf("%+v ended the tenure", m)
		}
	}
}

// TestTimeNeverGoesBack: a clock reading below an earlier one counts as that.
func TestTimeNeverGoesBack(t *testing.T) {
	s, now := holder(t)
	later, _ := Step(s, Tick{}, now+time.Second)
	back, _ := Step(later, Tick{}, now)
	if back.now != now+time.Second {
		t.Errorf("now went back to %s", back.now)
	}
}

func TestValuesStayUsable(t *testing.T) {
	s, now := holder(t)
	before := s.Status()
	peers := append([]peer(nil), s.peers...)
	Step(s, PeerChanged{Node: "b", Priority: 9, Alive: true}, now)
	Step(s, PeerChanged{Node: "aa", Priority: 9, Alive: true}, now)
	Step(s, StepDown{Reason: "x"}, now)
	Step(s, Suspended{}, now)
	if !reflect.DeepEqual(before, s.Status()) || !reflect.DeepEqual(peers, s.peers) {
		t.Error("a step changed the state that it was given")
	}
}

// TestSteadyStepAllocatesNothing: events that change nothing are free.
func TestSteadyStepAllocatesNothing(t *testing.T) {
	s, now := holder(t)
	for _, ev := range []Event{
		Tick{},
		PeerChanged{Node: "b", Priority: 2, Eligible: true, Alive: true, CaughtUp: true},
		Receive{From: "b", Msg: Message{Phase: RenewReply, Term: 1, Round: s.round, Granted: true, Config: s.vote.Config}},
	} {
		if n := testing.AllocsPerRun(100, func() { s, _ = Step(s, ev, now) }); n != 0 {
			t.Errorf("%s allocates %v times", ev, n)
		}
	}
}

func BenchmarkSteadyStep(b *testing.B) {
	s, now := holder(b)
	var ev Event = Tick{}
	b.ReportAllocs()
	for b.Loop() {
		s, _ = Step(s, ev, now)
	}
}

func BenchmarkRenewal(b *testing.B) {
	s, now := holder(b)
	b.ReportAllocs()
	for b.Loop() {
		now += s.timing.Renew
		s, _ = Step(s, Tick{}, now)
		s, _ = Step(s, Receive{From: "b", Msg: Message{Phase: RenewReply, Term: 1, Round: s.round, Granted: true, Config: s.vote.Config}}, now)
	}
	if !MayAct(s, 1, now) {
		b.Fatal("the lease was lost")
	}
}

// TestPriorityChanges gives a host another priority while it runs: what it
// sends from then on says so.
func TestPriorityChanges(t *testing.T) {
	s, err := New(Options{
		Self: "a", Priority: 10, Timing: timing(t, cluster.ProfileLAN), ModeSetting: cluster.ModeAuto,
		Vote: VoteRecord{Config: three()}, Fresh: true,
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, acts := Step(s, PeerChanged{Node: "a", Priority: 7, Gone: true}, 0)
	sent := 0
	for _, a := range acts {
		if send, ok := a.(Send); ok {
			if sent++; send.Msg.Priority != 7 {
				t.Errorf("sends priority %d, want 7", send.Msg.Priority)
			}
		}
	}
	if sent == 0 {
		t.Errorf("actions %v, want messages", acts)
	}
}

// TestLostRecordKeepsTheFloor: a voter that lost its record and alone knows, by
// its log, of a later term lets no holder of an older one go on.
func TestLostRecordKeepsTheFloor(t *testing.T) {
	s, err := New(Options{
		Self: "a", Timing: timing(t, cluster.ProfileLAN), ModeSetting: cluster.ModeAuto,
		Vote: VoteRecord{PromisedTerm: 3, PromisedTo: "b", Config: three()}, Lost: "rolled back", Floor: 9,
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, acts := Step(s, Receive{From: "b", Msg: Message{Phase: Renew, Term: 8, Round: 1, Config: three()}}, time.Minute)
	if st := s.Status(); st.Holder != "" || st.Vote.PromisedTerm != 9 || st.Vote.PromisedTo != "" {
		t.Errorf("after a renewal of term 8: %+v", st)
	}
	for _, a := range acts {
		if a, ok := a.(Send); ok && (a.Msg.Granted || a.Msg.Promised != 9) {
			t.Errorf("answers %+v", a.Msg)
		}
	}
}

// TestLateReleaseKeepsTheGuard: a release of an older term that arrives late
// does not free a voter from the guard for the present holder.
func TestLateReleaseKeepsTheGuard(t *testing.T) {
	s, err := New(Options{
		Self: "a", Priority: 9, Timing: timing(t, cluster.ProfileLAN), ModeSetting: cluster.ModeAuto,
		Vote: VoteRecord{Config: three()}, Fresh: true,
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, _ = Step(s, Receive{From: "b", Msg: Message{Phase: Renew, Term: 5, Round: 1, Config: three()}}, time.Second)
	for _, r := range []*Release{{Term: 3, Holder: "c", Successor: "c"}, {Term: 4, Holder: "b", Successor: "c"}} {
		s, _ = Step(s, Receive{From: r.Holder, Msg: Message{Phase: ReleaseTerm, Term: r.Term, Released: r}}, 2*time.Second)
		if s.guard.node != "b" || s.guard.term != 5 {
			t.Fatalf("a release of term %d of %s left the guard %+v", r.Term, r.Holder, s.guard)
		}
	}
	s, _ = Step(s, Receive{From: "b", Msg: Message{Phase: ReleaseTerm, Term: 5, Released: &Release{Term: 5, Holder: "b"}}}, 2*time.Second)
	if s.guard.node != "" {
		t.Errorf("its own release left the guard %+v", s.guard)
	}
}
