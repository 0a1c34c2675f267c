package lease

import (
	"reflect"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

// FuzzStep reads bytes as events of a hostile neighbourhood and checks what
// must hold whatever comes.
func FuzzStep(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{1, 0, 1, 0, 1, 1, 0, 2, 0, 9, 1, 0, 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Add([]byte("\x01\x01\x00\x01\x01\x02\x00\x31\x01\x00\x03\x31\x01\x00\x05\x31\x01\x00\x07"))
	f.Add([]byte("release and grow: \x02\x10\x20\x40\x80\xff\x81\x18\x88\x44\x22\x11"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := &reader{data: data}
		s := fuzzState(t, r)
		c := &contract{t: t, granted: map[cluster.Term]cluster.NodeID{}, disk: s.vote}
		now := time.Duration(0)
		for steps := 0; len(r.data) > 0 && steps < 200; steps++ {
			now += time.Duration(r.byte()) * 23 * time.Millisecond
			ev := fuzzEvent(r, &s)
			next, acts := Step(s, ev, now)
			again, acts2 := Step(s, ev, now)
			if !reflect.DeepEqual(next, again) || !reflect.DeepEqual(acts, acts2) {
				t.Fatalf("%s: two steps from one state differ", ev)
			}
			c.check(&s, &next, acts, now)
			s = next
		}
	})
}

type reader struct{ data []byte }

func (r *reader) byte() byte {
	if len(r.data) == 0 {
		return 0
	}
	b := r.data[0]
	r.data = r.data[1:]
	return b
}

var fuzzNodes = []cluster.NodeID{"a", "b", "c", "d"}

func fuzzConfig(r *reader) cluster.VoterConfig {
	b := r.byte()
	n := 1 + int(b&3)
	c := cluster.VoterConfig{Epoch: uint64(b>>2&7) + 1, Term: cluster.Term(b >> 5), Voters: fuzzNodes[:n:n], Mode: cluster.AutoMode(n)}
	if b == 255 {
		c.Mode = "none"
	}
	return c
}

func fuzzState(t *testing.T, r *reader) State {
	tm, err := TimingFor([]cluster.Profile{cluster.ProfileLAN, cluster.ProfileFast, cluster.ProfileClassic}[r.byte()%3])
	if err != nil {
		t.Fatal(err)
	}
	b := r.byte()
	o := Options{Self: "a", Priority: uint32(b & 3), Timing: tm, ModeSetting: cluster.ModeAuto, Fresh: b&4 != 0, Witness: b&24 == 24}
	if b&32 == 0 {
		o.Vote.Config = fuzzConfig(r)
		o.Vote.Config.Term = 0
		if o.Vote.Config.Validate() != nil {
			o.Vote.Config = cluster.VoterConfig{}
		}
	}
	s, err := New(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func fuzzEvent(r *reader, s *State) Event {
	b := r.byte()
	from := fuzzNodes[r.byte()%4]
	switch b % 12 {
	case 0:
		return Tick{Jitter: float64(r.byte()) / 256}
	case 1:
		f := r.byte()
		return PeerChanged{Node: from, Priority: uint32(f & 3), Eligible: f&4 != 0, Alive: f&8 != 0, CaughtUp: f&16 != 0, Gone: f&224 == 224, Publishing: f&32 != 0, Holds: cluster.Term(f >> 6)}
	case 2:
		return TermReady{Term: s.hold.term, Epoch: s.vote.Config.Epoch}
	case 3:
		return StepDown{To: from, Reason: "fuzz", Leaving: r.byte() > 250}
	case 4:
		return SelfCheck{OK: r.byte()&3 != 0, Reason: "fuzz"}
	case 5:
		return Quiesced{Term: s.hold.term}
	case 6:
		if r.byte() > 200 {
			return Suspended{}
		}
		return Tick{}
	}
	// Mostly answers that fit, else anything.
	m := Message{Priority: uint32(b >> 6), Config: s.vote.Config, Round: s.round, Granted: true}
	switch s.phase {
	case preVoting:
		m.Phase, m.Term = PreVoteReply, s.cand.term
	case voting:
		m.Phase, m.Term = VoteReply, s.cand.term
	case holding, quiescing:
		m.Phase, m.Term = RenewReply, s.hold.term
	default:
		m.Phase, m.Term = Renew, s.seen+1
	}
	if b&16 == 0 {
		return Receive{From: from, Msg: m}
	}
	phases := []Phase{PreVote, PreVoteReply, Vote, VoteReply, Renew, RenewReply, ReleaseTerm, "?"}
	f := r.byte()
	m.Phase, m.Granted = phases[f%8], f&8 != 0
	m.Term = cluster.Term(r.byte() % 16)
	m.Promised = cluster.Term(r.byte() % 16)
	if f&16 != 0 {
		m.Config = fuzzConfig(r)
	}
	if f&32 != 0 {
		m.Holder = fuzzNodes[r.byte()%4]
	}
	if f&64 != 0 {
		m.Released = &Release{Term: cluster.Term(r.byte() % 16), Holder: fuzzNodes[r.byte()%4], Successor: fuzzNodes[r.byte()%4]}
	}
	return Receive{From: from, Msg: m}
}

// contract is what a shell relies on.
type contract struct {
	t       *testing.T
	disk    VoteRecord
	held    cluster.Term // Acquired and not Lost
	max     cluster.Term
	granted map[cluster.Term]cluster.NodeID
}

func (c *contract) check(old, s *State, acts []Action, now time.Duration) {
	t := c.t
	for _, a := range acts {
		switch a := a.(type) {
		case Persist:
			if a.Vote.PromisedTerm < c.disk.PromisedTerm || c.disk.Config.Newer(a.Vote.Config) {
				t.Fatalf("%s goes back from promised=%d", a, c.disk.PromisedTerm)
			}
			c.disk = a.Vote
		case Send:
			c.sent(a)
		case Acquired:
			if c.held != 0 || a.Term <= c.max || a.Until <= now || a.Term != c.disk.PromisedTerm {
				t.Fatalf("%s at %s while holding %d, highest %d, on disk %+v", a, now, c.held, c.max, c.disk)
			}
			c.held, c.max = a.Term, a.Term
		case Extended:
			if a.Term != c.held || a.Until > now+s.timing.Lease {
				t.Fatalf("%s while holding %d", a, c.held)
			}
		case Lost:
			if a.Term != c.held {
				t.Fatalf("%s while holding %d", a, c.held)
			}
			c.held = 0
		}
	}
	checkDuty(t, s, acts, now)
	if !reflect.DeepEqual(c.disk, s.vote) {
		t.Fatalf("disk has %+v, memory %+v", c.disk, s.vote)
	}
	if _, ok := s.Held(now); ok != (c.held != 0) {
		t.Fatalf("holds %t, told %d", ok, c.held)
	}
	if d := Deadline(*s); d < now || d > now+s.timing.Lease {
		t.Fatalf("deadline %s at %s", d, now)
	}
	if d := Deadline(*s); d == now && len(acts) == 0 && reflect.DeepEqual(*old, *s) {
		t.Fatalf("due at once for ever at %s", now)
	}
}

func (c *contract) sent(a Send) {
	m := a.Msg
	if m.Phase == VoteReply && m.Granted {
		if who, ok := c.granted[m.Term]; ok && who != a.To {
			c.t.Fatalf("term %d granted to %s and %s", m.Term, who, a.To)
		}
		c.granted[m.Term] = a.To
	}
	if m.Promised > c.disk.PromisedTerm && c.disk.Lost == "" || ((m.Phase == VoteReply || m.Phase == RenewReply) && m.Granted && m.Term > c.disk.PromisedTerm) {
		c.t.Fatalf("%s before it was persisted", a)
	}
	if a.To == "a" {
		c.t.Fatalf("%s to itself", a)
	}
}
