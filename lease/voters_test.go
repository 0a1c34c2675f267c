package lease

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

// chooser returns the holder of a cluster whose hosts, but for itself, stand in
// the zones given, one letter each, best first; all have been there for long.
func chooser(t *testing.T, zone, zones string, maxVoters int) *machine {
	t.Helper()
	s, err := New(Options{
		Self: "h000", Priority: 1, Zone: zone, MaxVoters: maxVoters, Timing: timing(t, cluster.ProfileLAN), ModeSetting: cluster.ModeAuto, Fresh: true,
		Vote: VoteRecord{Config: cluster.VoterConfig{Epoch: 1, Voters: []cluster.NodeID{"h000"}, Mode: cluster.ModeSingle}},
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, z := range zones {
		s, _ = Step(s, PeerChanged{
			Node: cluster.NodeID(fmt.Sprintf("h%03d", i+1)), Priority: uint32(i + 2), Eligible: true, Alive: true, CaughtUp: true, Zone: string(z),
		}, 0)
	}
	s, _ = Step(s, Tick{}, time.Hour)
	return &machine{State: s}
}

// grow takes voters in until none is wanted any more.
func (m *machine) grow(t *testing.T) []cluster.NodeID {
	t.Helper()
	for range 2 * cluster.MaxVoters {
		_, all := m.target()
		if slices.Equal(all, m.vote.Config.Voters) {
			return all
		}
		m.vote.Config.Voters = all
	}
	t.Fatalf("the choice does not end: %v", m.vote.Config.Voters)
	return nil
}

func TestChoiceOfVoters(t *testing.T) {
	for name, c := range map[string]struct {
		zone, zones string
		max         int
		want        string
	}{
		"alone":               {"a", "", 0, "[h000]"},
		"all of seven":        {"a", "aaaaaa", 0, "[h000 h001 h002 h003 h004 h005 h006]"},
		"five of eight":       {"a", "aaaaaaa", 0, "[h000 h001 h002 h003 h004]"},
		"as told":             {"a", "aaaaaaaaa", 3, "[h000 h001 h002]"},
		"all that there are":  {"a", "aa", 5, "[h000 h001 h002]"},
		"three zones":         {"a", "aaaaabbbbcccc", 0, "[h000 h001 h006 h007 h010]"},
		"two zones":           {"a", "aaaaaaabbbb", 0, "[h000 h001 h002 h008 h009]"},
		"a zone of one":       {"a", "aaaabbbbc", 0, "[h000 h001 h005 h006 h009]"},
		"no majority, so few": {"a", "aaaaaaabc", 0, "[h000 h001 h008 h009]"},
	} {
		if got := fmt.Sprint(chooser(t, c.zone, c.zones, c.max).grow(t)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestVotersStay: who votes is changed by nothing but need.
func TestVotersStay(t *testing.T) {
	m := chooser(t, "a", "aaaaaaaaaaaa", 0)
	before := m.grow(t)
	set := func(e PeerChanged, at time.Duration) {
		s, _ := Step(m.State, e, at)
		m.State = s
	}
	better := PeerChanged{Node: "best", Priority: 0, Eligible: true, Alive: true, CaughtUp: true, Zone: "a"}
	set(better, 2*time.Hour)
	s, _ := Step(m.State, Tick{}, 3*time.Hour)
	m.State = s
	if got := m.grow(t); !slices.Equal(got, before) {
		t.Errorf("a better host changed %v to %v", before, got)
	}
	dead := PeerChanged{Node: "h003", Priority: 5, Eligible: true, Zone: "a"}
	set(dead, 4*time.Hour)
	m.now = 4*time.Hour + m.timing.Replace - 1
	if got := m.grow(t); !slices.Equal(got, before) {
		t.Errorf("a voter that is away for a while was replaced: %v", got)
	}
	m.now++
	goal, _ := m.target()
	if want := "[best h000 h001 h002 h004]"; fmt.Sprint(goal) != want {
		t.Errorf("a dead voter: %v, want %s", goal, want)
	}
	// Without somebody to take its place it stays.
	alone := chooser(t, "a", "aa", 0)
	alone.grow(t)
	s, _ = Step(alone.State, PeerChanged{Node: "h002", Priority: 4, Zone: "a"}, 2*time.Hour)
	alone.State = s
	alone.now = 24 * time.Hour
	if got := alone.grow(t); len(got) != 3 {
		t.Errorf("the voters shrank to %v since one is not seen", got)
	}
	// Nor is one replaced that an operator named.
	m.vote.Config.Pinned = true
	if goal, _ := m.target(); !slices.Equal(goal, before) {
		t.Errorf("pinned voters changed to %v", goal)
	}
	// One that has only just come is no choice yet.
	young := chooser(t, "a", "aaaaaaaaa", 0)
	young.vote.Config.Voters = []cluster.NodeID{"h000", "h001", "h002"}
	for i := range young.peers {
		young.peers[i].up = young.now
	}
	if _, all := young.target(); len(all) != 3 {
		t.Errorf("a host that has just come becomes a voter: %v", all)
	}
}

// TestZonesAreEvened: voters that all came from one zone spread when others
// have hosts, one for one.
func TestZonesAreEvened(t *testing.T) {
	m := chooser(t, "a", "aaaaaabbbccc", 0)
	m.vote.Config.Voters = []cluster.NodeID{"h000", "h001", "h002", "h003", "h004"}
	for range 10 {
		goal, _ := m.target()
		if slices.Equal(goal, m.vote.Config.Voters) {
			break
		}
		if len(goal) != 5 {
			t.Fatalf("%v", goal)
		}
		m.vote.Config.Voters = goal
	}
	count := map[string]int{}
	for _, v := range m.vote.Config.Voters {
		count[m.zoneOf(v)]++
	}
	if count["a"] > 2 || count["b"] > 2 || count["c"] > 2 || !m.vote.Config.Has("h000") {
		t.Errorf("voters %v: %v", m.vote.Config.Voters, count)
	}
}

func TestFollowersAreTheBest(t *testing.T) {
	s, now := holder(t)
	for i := range 200 {
		s, _ = Step(s, PeerChanged{Node: cluster.NodeID(fmt.Sprintf("n%03d", i)), Priority: uint32(1000 - i), Alive: true}, now)
	}
	_, acts := Step(s, Tick{}, now+s.timing.Renew)
	to := map[cluster.NodeID]bool{}
	for _, a := range acts {
		if m, ok := a.(Send); ok && m.Msg.Phase == Renew {
			to[m.To] = true
		}
	}
	if len(to) != 2+fewFollowers || !to["b"] || !to["c"] || !to["n199"] || !to["n196"] || to["n195"] {
		t.Errorf("renewals go to %d hosts: %v", len(to), to)
	}
	// A host that no renewal reaches shows who says of itself to hold.
	far, err := New(Options{Self: "far", Priority: 9, Timing: s.timing, ModeSetting: cluster.ModeAuto, Vote: VoteRecord{Config: three()}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	far, _ = Step(far, PeerChanged{Node: "a", Priority: 1, Eligible: true, Alive: true, Holds: 7}, time.Hour)
	if st := far.Status(); st.Holder != "a" || st.Term != 7 {
		t.Errorf("a far host sees %q hold term %d", st.Holder, st.Term)
	}
}

func TestCheckVoters(t *testing.T) {
	s, now := holder(t)
	s, _ = Step(s, PeerChanged{Node: "gone", Gone: true}, now)
	s, _ = Step(s, PeerChanged{Node: "dead"}, now)
	s, _ = Step(s, PeerChanged{Node: "d", Priority: 4, Alive: true, CaughtUp: true}, now)
	ids := func(n ...cluster.NodeID) SetVoters { return SetVoters{Voters: n} }
	for name, r := range map[string]SetVoters{
		"nothing":            {},
		"both":               {Auto: true, Voters: []cluster.NodeID{"a"}},
		"mode":               {Mode: cluster.ModeSingle},
		"twice":              ids("a", "b", "b"),
		"name":               ids("A b"),
		"unknown":            ids("a", "b", "x"),
		"left":               ids("a", "b", "gone"),
		"dead":               ids("a", "b", "dead"),
		"many":               ids("a", "b", "c", "d", "e", "f", "g", "h"),
		"holder, single":     ids("b"),
		"holder, two":        ids("b", "c"),
		"holder, by oneself": {Voters: []cluster.NodeID{"b", "c", "d"}, Mode: cluster.ModeAvailable},
	} {
		if err := CheckVoters(s, r); !errors.Is(err, ErrVoters) {
			t.Errorf("%s: %v", name, err)
		}
		if after, acts := Step(s, r, now); len(acts) != 0 || !reflect.DeepEqual(after, s) {
			t.Errorf("%s: changed something: %v", name, acts)
		}
	}
	for name, r := range map[string]SetVoters{
		"auto": {Auto: true}, "mode": {Mode: cluster.ModeAvailable}, "other": ids("a", "b", "d"), "fewer": ids("a", "b"), "without the holder": ids("b", "c", "d"),
	} {
		if err := CheckVoters(s, r); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	idle := chooser(t, "a", "", 0).State
	idle.phase = 0
	if err := CheckVoters(idle, SetVoters{Auto: true}); !errors.Is(err, ErrNotHolding) {
		t.Errorf("who does not hold: %v", err)
	}
}

// TestBadClaimsChangeNothing: what cannot be meant honestly is refused with a
// reason and leaves the state as it was.
func TestBadClaimsChangeNothing(t *testing.T) {
	s, now := holder(t)
	voter, err := New(Options{
		Self: "b", Priority: 2, Timing: s.timing, ModeSetting: cluster.ModeAuto, Fresh: true,
		Vote: VoteRecord{PromisedTerm: 5, PromisedTo: "a", Config: cluster.VoterConfig{Epoch: 4, Term: 5, Voters: three().Voters, Mode: cluster.ModeQuorum}},
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []PeerChanged{
		{Node: "a", Priority: 1, Eligible: true, Alive: true},
		{Node: "c", Priority: 3, Eligible: true, Alive: true},
		{Node: "w", Priority: 4, Alive: true},
		{Node: "g", Gone: true},
	} {
		voter, _ = Step(voter, e, now)
	}
	older := three()
	split := cluster.VoterConfig{Epoch: 9, Term: 9, Voters: three().Voters, Mode: cluster.ModeAvailable}
	asking, _ := Step(voter, Tick{}, now+time.Minute)
	if asking.phase != preVoting {
		t.Fatalf("does not ask: %+v", asking.Status())
	}
	for name, c := range map[string]struct {
		s    State
		from cluster.NodeID
		m    Message
		why  string
	}{
		"vote of a lower term":        {voter, "c", Message{Phase: Vote, Term: 4, Config: voter.vote.Config}, RefusedTerm},
		"second vote of a term":       {voter, "c", Message{Phase: Vote, Term: 5, Config: voter.vote.Config}, RefusedTerm},
		"renewal of a lower term":     {voter, "a", Message{Phase: Renew, Term: 4, Config: voter.vote.Config}, RefusedTerm},
		"vote under an old record":    {voter, "c", Message{Phase: Vote, Term: 9, Config: older}, RefusedEpoch},
		"pre-vote under an old one":   {voter, "c", Message{Phase: PreVote, Term: 9, Config: older}, RefusedEpoch},
		"vote of a witness":           {voter, "w", Message{Phase: Vote, Term: 9, Config: voter.vote.Config}, RefusedCandidate},
		"vote of one that left":       {voter, "g", Message{Phase: Vote, Term: 9, Config: voter.vote.Config}, RefusedCandidate},
		"claim of a non-voter":        {voter, "x", Message{Phase: Vote, Term: 9, Config: split}, RefusedNonVoter},
		"renewal of a non-voter":      {voter, "x", Message{Phase: Renew, Term: 9, Config: split}, RefusedNonVoter},
		"grant of a non-voter":        {asking, "x", Message{Phase: PreVoteReply, Term: asking.cand.term, Round: asking.round, Granted: true, Promised: 99, Config: asking.vote.Config}, RefusedNonVoter},
		"renewal ack of a non-voter":  {s, "x", Message{Phase: RenewReply, Term: 1, Round: s.round, Granted: true, Promised: 99, Config: s.vote.Config}, RefusedNonVoter},
		"later record of a non-voter": {asking, "x", Message{Phase: PreVoteReply, Term: asking.cand.term, Round: asking.round, Config: split}, RefusedNonVoter},
	} {
		at := c.s.now
		after, acts := Step(c.s, Receive{From: c.from, Msg: c.m}, at)
		if !reflect.DeepEqual(after, c.s) {
			t.Errorf("%s changed the state to %+v", name, after.Status())
		}
		refused := 0
		for _, a := range acts {
			switch a := a.(type) {
			case Refused:
				if refused++; a.Why != c.why || a.Node != c.from {
					t.Errorf("%s: %s, want %s", name, a, c.why)
				}
			case Send:
				if a.Msg.Granted {
					t.Errorf("%s: %s", name, a)
				}
			default:
				t.Errorf("%s: %s", name, a)
			}
		}
		if refused != 1 {
			t.Errorf("%s: refused %d times: %v", name, refused, acts)
		}
	}
}

// TestSetVotersStepByStep follows an operator's wishes through a whole cluster.
func TestSetVotersStepByStep(t *testing.T) {
	w := newDutyNet(t, cluster.ProfileLAN, 5, 3, false)
	w.run(w.all())
	config := func() cluster.VoterConfig {
		for _, h := range w.hosts {
			if h.state.holds() {
				return h.state.vote.Config
			}
		}
		return cluster.VoterConfig{}
	}
	expect := func(when, voters string, mode cluster.Mode, split bool) {
		t.Helper()
		for range 300 {
			if c := config(); fmt.Sprint(c.Voters) == voters && c.Mode == mode && c.Split() == split && len(c.Target) == 0 {
				return
			}
			w.run(100 * time.Millisecond)
		}
		t.Fatalf("%s: %+v, want %s in mode %s", when, config(), voters, mode)
	}
	ask := func(r SetVoters) {
		t.Helper()
		if err := CheckVoters(w.host("a").state, r); err != nil {
			t.Fatal(err)
		}
		w.step(w.host("a"), r)
	}
	expect("all of five", "[a b c d e]", cluster.ModeQuorum, false)
	ask(SetVoters{Voters: []cluster.NodeID{"d", "b", "a"}})
	expect("pinned", "[a b d]", cluster.ModeQuorum, false)
	w.run(w.all())
	expect("pinned, later", "[a b d]", cluster.ModeQuorum, false)
	ask(SetVoters{Mode: cluster.ModeAvailable})
	expect("available", "[a b d]", cluster.ModeAvailable, true)
	ask(SetVoters{Voters: []cluster.NodeID{"a", "b", "c", "d"}})
	expect("available, four", "[a b c d]", cluster.ModeAvailable, true)
	ask(SetVoters{Mode: cluster.ModeQuorum})
	expect("quorum again", "[a b c d]", cluster.ModeQuorum, false)
	ask(SetVoters{Voters: []cluster.NodeID{"a", "b"}})
	expect("two that need each other", "[a b]", cluster.ModeQuorum, false)
	ask(SetVoters{Mode: cluster.ModeAuto})
	expect("two that go on alone", "[a b]", cluster.ModeAvailable, true)
	// One that is not there and is not wanted any more holds nothing up, and
	// since it has not heard of it, slots stay.
	w.host("b").down = true
	w.run(w.all())
	ask(SetVoters{Voters: []cluster.NodeID{"a"}})
	expect("one, the other is away", "[a]", cluster.ModeSingle, true)
	if config().Spent == 0 {
		t.Error("a voter that went unheard left no trace")
	}
	// The wish survives the holder.
	w.boot(w.host("b"), w.host("b").state.vote, false)
	w.run(w.all())
	ask(SetVoters{Voters: []cluster.NodeID{"a", "b", "c"}, Mode: cluster.ModeQuorum})
	w.run(2 * w.tick)
	expect("three", "[a b c]", cluster.ModeQuorum, true)
	w.host("a").down = true
	w.run(2 * w.all())
	expect("another holder", "[a b c]", cluster.ModeQuorum, true)
	if !config().Pinned || config().Setting != cluster.ModeQuorum {
		t.Errorf("the next holder forgot what was asked for: %+v", config())
	}
}

// TestAvailableOfThree: in available mode both sides of a cut hold, with terms
// of their own; when they meet, the best holds a term above both.
func TestAvailableOfThree(t *testing.T) {
	eachProfile(t, func(t *testing.T, p cluster.Profile) {
		for _, side := range []string{"a", "b", "c"} {
			w := newDutyNet(t, p, 3, 3, false)
			for _, h := range w.hosts {
				w.boot(h, VoteRecord{Config: cluster.VoterConfig{Epoch: 1, Voters: three().Voters, Mode: cluster.ModeAvailable}}, true)
				h.state.setting = cluster.ModeAvailable
			}
			w.run(w.all())
			holders := func() (out []string) {
				seen := map[cluster.Term]bool{}
				for _, h := range w.hosts {
					if h.state.holds() {
						out = append(out, string(h.id))
						if seen[h.state.hold.term] {
							t.Fatalf("two hold term %d", h.state.hold.term)
						}
						seen[h.state.hold.term] = true
					}
				}
				return out
			}
			if got := holders(); fmt.Sprint(got) != "[a]" {
				t.Fatalf("before: %v", got)
			}
			w.sides(side)
			w.run(2 * w.all())
			highest := cluster.Term(0)
			for _, h := range w.hosts {
				highest = max(highest, h.state.hold.term)
			}
			if got := holders(); len(got) != 2 {
				t.Fatalf("cut %s: %v hold", side, got)
			}
			w.cut = nil
			w.run(w.timing.Heartbeat + w.timing.Renew + time.Second)
			if got := holders(); fmt.Sprint(got) != "[a]" || w.host("a").state.hold.term <= highest {
				t.Fatalf("healed %s: %v hold, a term %d after %d", side, got, w.host("a").state.hold.term, highest)
			}
		}
	})
}

// TestVoteLost: a voter that lost its record abstains, says so, remembers it
// over a restart, and votes again once it was taken out and in.
func TestVoteLost(t *testing.T) {
	eachProfile(t, func(t *testing.T, p cluster.Profile) {
		for _, voters := range []int{2, 3, 5} {
			w := newDutyNet(t, p, voters, voters, false)
			w.run(w.all())
			a, last := w.host("a"), w.hosts[voters-1]
			epoch := a.state.vote.Config.Epoch
			last.down = true
			w.boot(last, VoteRecord{}, false)
			w.step(last, VoteLost{Reason: "disk"})
			if st := last.state.Status(); st.Abstaining != "disk" || st.Blocked == "" {
				t.Fatalf("%+v", st)
			}
			w.boot(last, last.state.vote, false)
			if last.state.Status().Abstaining != "disk" {
				t.Fatal("forgotten by a restart")
			}
			_, acts := Step(last.state, Receive{From: "b", Msg: Message{Phase: Vote, Priority: 20, Term: 99, Config: a.state.vote.Config}}, w.now+time.Hour)
			for _, x := range acts {
				if s, ok := x.(Send); ok && s.Msg.Granted {
					t.Fatalf("grants: %s", s)
				}
			}
			said := false
			for range 1800 {
				w.run(100 * time.Millisecond)
				said = said || a.state.lookup(last.id).lostAt != 0
				if c := a.state.vote.Config; last.state.vote.Lost == "" && len(c.Voters) == voters && len(c.Target) == 0 && a.state.hold.stable {
					break
				}
			}
			c := a.state.vote.Config
			if !a.state.holds() || len(c.Voters) != voters || last.state.vote.Lost != "" || c.Epoch < epoch+2 || !said {
				t.Fatalf("%d voters: %+v, %+v, said %t", voters, a.state.Status(), last.state.Status(), said)
			}
			if want := cluster.AutoMode(voters); c.Mode != want {
				for range 100 {
					w.run(100 * time.Millisecond)
				}
				if c = a.state.vote.Config; c.Mode != want {
					t.Errorf("%d voters: mode %s", voters, c.Mode)
				}
			}
		}
	})
}

// TestTwoByMajority: of two voters that need each other the one that is left
// says what it waits for.
func TestTwoByMajority(t *testing.T) {
	s, err := New(Options{
		Self: "a", Priority: 1, Timing: timing(t, cluster.ProfileLAN), ModeSetting: cluster.ModeQuorum,
		Vote: VoteRecord{Config: cluster.VoterConfig{Epoch: 1, Voters: []cluster.NodeID{"a", "b"}, Mode: cluster.ModeQuorum}},
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Status().Blocked; !strings.Contains(got, "needs b") || !strings.Contains(got, "witness") {
		t.Errorf("blocked %q", got)
	}
	s, _ = Step(s, PeerChanged{Node: "b", Priority: 2, Eligible: true, Alive: true}, 0)
	if got := s.Status().Blocked; got != "" {
		t.Errorf("blocked %q while the other is there", got)
	}
}

// TestTooFewVotersSaysSo: where nobody can hold, a host that is left says which voters
// it takes, whether it votes itself or not; where somebody may, it says nothing.
func TestTooFewVotersSaysSo(t *testing.T) {
	three := []cluster.NodeID{"a", "b", "c"}
	there := func(n cluster.NodeID) PeerChanged {
		return PeerChanged{Node: n, Priority: 2, Eligible: true, Alive: true}
	}
	abstains := there("b")
	abstains.Abstains = true
	declares := there("d")
	declares.Holds = 1
	for name, c := range map[string]struct {
		self  cluster.NodeID
		mode  cluster.Mode
		peers []PeerChanged
		want  string
	}{
		"alone":             {self: "a", want: "needs 2 of 3 voters; not heard: b, c"},
		"lost again":        {self: "a", peers: []PeerChanged{there("b"), {Node: "b", Priority: 2}}, want: "needs 2 of 3 voters; not heard: b, c"},
		"removed":           {self: "a", peers: []PeerChanged{there("b"), {Node: "b", Gone: true}}, want: "needs 2 of 3 voters; not heard: b, c"},
		"two of three":      {self: "a", peers: []PeerChanged{there("b")}},
		"one abstains":      {self: "a", peers: []PeerChanged{abstains}, want: "needs 2 of 3 voters; not heard: c; abstaining: b"},
		"no voter":          {self: "d", peers: []PeerChanged{there("c")}, want: "needs 2 of 3 voters; not heard: a, b"},
		"a holder is heard": {self: "a", peers: []PeerChanged{declares}},
		"mode available":    {self: "a", mode: cluster.ModeAvailable},
	} {
		mode := cmp.Or(c.mode, cluster.ModeQuorum)
		s, err := New(Options{
			Self: c.self, Priority: 1, Timing: timing(t, cluster.ProfileLAN), ModeSetting: mode,
			Vote: VoteRecord{Config: cluster.VoterConfig{Epoch: 1, Voters: three, Mode: mode}},
		}, 0)
		if err != nil {
			t.Fatal(name, err)
		}
		for _, p := range c.peers {
			s, _ = Step(s, p, 0)
		}
		if got := s.Status().Blocked; got != c.want {
			t.Errorf("%s: blocked %q, want %q", name, got, c.want)
		}
	}
}

// TestHolderWithoutVoteMakesWay: where only voters may hold after the next
// step, a holder that is none hands over to one instead of locking itself out.
func TestHolderWithoutVoteMakesWay(t *testing.T) {
	eachProfile(t, func(t *testing.T, p cluster.Profile) {
		w := newDutyNet(t, p, 4, 0, false)
		pinned := cluster.VoterConfig{Epoch: 1, Voters: []cluster.NodeID{"c", "d"}, Mode: cluster.ModeQuorum, Pinned: true}
		for _, h := range w.hosts {
			h.down = true
			w.boot(h, VoteRecord{Config: pinned}, true)
		}
		for range 300 {
			w.run(w.timing.Lease / 10)
		}
		for _, h := range w.hosts {
			c := h.state.vote.Config
			if voter := h.id == "c"; h.state.holds() != voter || c.Mode != cluster.ModeAvailable || !slices.Equal(c.Voters, pinned.Voters) {
				t.Errorf("%s: %+v", h.id, h.state.Status())
			}
		}
		if term := w.host("c").state.vote.PromisedTerm; term > 4*cluster.TermSlots {
			t.Errorf("it took %d terms", term)
		}
	})
}

// TestSuccessorHasItsVote: a host that the pending record makes a voter may not
// know of it yet, and could not take over.
func TestSuccessorHasItsVote(t *testing.T) {
	s, now := holder(t)
	s, _ = Step(s, PeerChanged{Node: "b", Priority: 2, Eligible: true, Alive: true, CaughtUp: true}, now)
	s, _ = Step(s, PeerChanged{Node: "d", Priority: 1, Eligible: true, Alive: true, CaughtUp: true}, now)
	s.hold.base, s.hold.stable = s.vote.Config, false
	s.vote.Config.Voters = []cluster.NodeID{"a", "b", "c", "d"}
	m := machine{State: s}
	if got := m.successor(""); got != "b" {
		t.Errorf("successor %q", got)
	}
	if got := m.successor("d"); got != "b" {
		t.Errorf("successor %q instead of d", got)
	}
	m.hold.stable = true
	if got := m.successor(""); got != "d" {
		t.Errorf("successor %q once all is stable", got)
	}
}
