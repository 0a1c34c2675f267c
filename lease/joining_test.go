package lease

import (
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

// TestJoiningVoterHoldsWithTheOthers: c was added to a and b in mode available, and
// whether they know is unknown to it. A holder of a and b that does not know may have
// gone over to majorities, so c does not hold alone.
func TestJoiningVoterHoldsWithTheOthers(t *testing.T) {
	record := cluster.VoterConfig{
		Epoch: 16, Term: 260, Voters: []cluster.NodeID{"a", "b", "c"}, Mode: cluster.ModeAvailable, Slots: []int{0, 1, 16}, Spent: 1 << 16,
	}
	known, before := record, record
	known.Spent = 0
	before.Epoch, before.Voters, before.Slots, before.Spent = 15, record.Voters[:2], record.Slots[:2], 0
	grant := func(c cluster.VoterConfig) *Message { return &Message{Granted: true, Config: c} }
	lost := &Message{Reason: refusedLost, Config: record}
	for name, c := range map[string]struct {
		record cluster.VoterConfig
		a, b   *Message // their answers to every request; nil: none
		gone   bool     // b left for good
		holds  bool
	}{
		"all had heard, none answers": {record: known, holds: true},
		"none answers":                {record: record},
		"one answers":                 {record: record, a: grant(record)},
		"both grant":                  {record: record, a: grant(record), b: grant(record), holds: true},
		"one does not know":           {record: record, a: grant(record), b: grant(before)},
		"one abstains":                {record: record, a: grant(record), b: lost, holds: true},
		"one left":                    {record: record, a: grant(record), gone: true, holds: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(Options{
				Self: "c", Priority: 3, Timing: timing(t, cluster.ProfileLAN), ModeSetting: cluster.ModeAuto, Fresh: true,
				Vote: VoteRecord{Config: c.record, PromisedTerm: 260},
			}, 0)
			if err != nil {
				t.Fatal(err)
			}
			now := time.Minute
			if c.gone {
				s, _ = Step(s, PeerChanged{Node: "b", Gone: true}, now)
			}
			for end := now + 20*time.Second; now < end && !s.holds(); now = max(now+time.Millisecond, Deadline(s)) {
				var acts []Action
				s, acts = Step(s, Tick{}, now)
				for len(acts) > 0 {
					send, ok := acts[0].(Send)
					acts = acts[1:]
					answer := map[cluster.NodeID]*Message{"a": c.a, "b": c.b}[send.To]
					if !ok || answer == nil || send.Msg.Phase != PreVote && send.Msg.Phase != Vote {
						continue
					}
					msg := *answer
					msg.Term, msg.Round, msg.Phase = send.Msg.Term, send.Msg.Round, PreVoteReply
					if send.Msg.Phase == Vote {
						msg.Phase = VoteReply
					}
					var more []Action
					s, more = Step(s, Receive{From: send.To, Msg: msg}, now)
					acts = append(acts, more...)
				}
			}
			if s.holds() != c.holds {
				t.Errorf("holds %t, want %t; blocked %q", s.holds(), c.holds, s.Status().Blocked)
			}
		})
	}
}

// TestJoiningEnds: the slot of a new voter is spent until every voter has the record
// that adds it.
func TestJoiningEnds(t *testing.T) {
	cur := cluster.VoterConfig{Epoch: 3, Term: 2, Voters: []cluster.NodeID{"a", "b"}, Mode: cluster.ModeAvailable, Setting: cluster.ModeAvailable, Slots: []int{0, 1}}
	m := &machine{State: State{self: "a", vote: VoteRecord{Config: cur}}}
	next := cur
	next.Voters = with(cur.Voters, "c")
	next = m.slotted(next, &cur)
	if !next.Joining("c") || next.Joining("a") || next.Joining("b") {
		t.Fatalf("slots %v, spent %x", next.Slots, next.Spent)
	}
	m.vote.Config = next
	if got, _ := next.Slot("c"); m.joined() != 1<<got {
		t.Errorf("joined is %x", m.joined())
	}
	only := cluster.VoterConfig{Epoch: 3, Term: 2, Voters: []cluster.NodeID{"a"}, Mode: cluster.ModeSingle}
	next = only
	next.Voters, next.Mode = with(only.Voters, "c"), cluster.ModeAvailable
	if next = m.slotted(next, &only); next.Spent != 0 {
		t.Errorf("beside the only voter, who has heard: spent %x", next.Spent)
	}
}
