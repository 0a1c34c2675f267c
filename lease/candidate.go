package lease

import (
	"math/bits"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// nextTerm is the term to ask for next. Where a voter may take a term without
// hearing the others each has its own class of them: that keeps one holder per
// term even when all act alone.
func (m *machine) nextTerm() cluster.Term {
	t := max(m.seen, m.vote.PromisedTerm) + 1
	if slot, ok := m.vote.Config.Slot(m.self); ok {
		t += (cluster.Term(slot) + cluster.TermSlots - t%cluster.TermSlots) % cluster.TermSlots
	}
	return t
}

// startPreVote asks the voters whether they would vote for this host. Nothing
// is promised and nothing persisted.
func (m *machine) startPreVote() {
	m.begin(preVoting, m.nextTerm())
	if m.prefersOther(m.priority, m.self) && !m.named() {
		m.mark(m.self, false)
	} else {
		m.mark(m.self, true)
	}
	m.ask(PreVote)
	m.count(false)
}

// startVote asks for a term and promises it to itself meanwhile: the others may
// save their promises while this host saves its own, which it counts only then.
// If it crashes before, nobody acts in that term on the strength of these votes.
// The lease that may follow counts from now.
func (m *machine) startVote() {
	m.begin(voting, m.nextTerm())
	m.vote.PromisedTerm, m.vote.PromisedTo = m.cand.term, m.self
	m.seen = m.cand.term
	m.ask(Vote)
	m.persist()
	m.mark(m.self, true)
	m.count(false)
}

func (m *machine) begin(p phase, term cluster.Term) {
	m.round++
	m.phase = p
	m.cand = candidacy{term: term, round: m.round, sent: m.now, deadline: m.now + m.timing.Round}
	if m.timing.Resend > 0 {
		m.cand.again = m.now + m.timing.Resend
	}
}

// ask asks the voters that have not answered in this round.
func (m *machine) ask(p Phase) {
	var rel *Release
	if m.named() {
		r := m.released
		rel = &r
	}
	answered := m.cand.granted | m.cand.refused | m.cand.absent
	for i, v := range m.vote.Config.Voters {
		if v != m.self && answered&(1<<i) == 0 {
			m.send(v, Message{Phase: p, Term: m.cand.term, Round: m.cand.round, Released: rel})
		}
	}
}

// askAgain repeats the question of the open round. Whoever has answered it answers the same
// again; what a vote binds counts from when it was asked first.
func (m *machine) askAgain() {
	m.cand.again = 0
	if m.phase == preVoting {
		m.ask(PreVote)
	} else {
		m.ask(Vote)
	}
}

// mark notes a voter's answer; hosts that are no voters do not count.
func (m *machine) mark(n cluster.NodeID, granted bool) {
	i, ok := slices.BinarySearch(m.vote.Config.Voters, n)
	switch {
	case !ok:
	case granted:
		m.cand.granted |= 1 << i
	default:
		m.cand.refused |= 1 << i
	}
}

// onAnswer counts an answer to the round that is open.
func (m *machine) onAnswer(from cluster.NodeID, msg *Message) {
	if !m.vote.Config.Has(from) {
		m.refuse(from, msg, RefusedNonVoter)
		return
	}
	m.seen = max(m.seen, msg.Promised)
	want := PreVoteReply
	if m.phase == voting {
		want = VoteReply
	}
	if (m.phase != preVoting && m.phase != voting) || msg.Phase != want || msg.Round != m.cand.round || msg.Term != m.cand.term {
		return
	}
	if msg.Config.Newer(m.vote.Config) {
		if m.adopt(msg.Config) {
			// Stand again under the newer record without a pause.
			m.persist()
			m.phase, m.standFrom = idle, m.now
		}
		return
	}
	switch {
	case msg.Reason == refusedLost && m.vote.Config.Mode == cluster.ModeAvailable:
		i, _ := slices.BinarySearch(m.vote.Config.Voters, from)
		m.cand.absent |= 1 << i // it cannot act either
	case msg.Granted && m.vote.Config.Joining(m.self) && m.vote.Config.Newer(msg.Config):
		return // it does not know that this host joined
	default:
		m.mark(from, msg.Granted)
	}
	m.count(false)
}

type outcome uint8

const (
	open outcome = iota
	won
	failed
)

// outcome judges the open round; timeout says that no more answers count.
func (m *machine) outcome(timeout bool) outcome {
	c := &m.vote.Config
	if m.phase == voting && m.now >= m.cand.sent+m.timing.safe(m.timing.VoteGuard) {
		return failed // this host was not run in time: the lease is over
	}
	if c.Mode != cluster.ModeAvailable {
		switch {
		case bits.OnesCount8(m.cand.granted) >= c.Majority():
			return won
		case timeout || len(c.Voters)-bits.OnesCount8(m.cand.refused) < c.Majority():
			return failed
		}
		return open
	}
	if m.cand.refused != 0 {
		return failed
	}
	for i, v := range c.Voters {
		if (m.cand.granted|m.cand.absent)&(1<<i) != 0 {
			continue
		}
		p := m.lookup(v)
		if c.Joining(m.self) && (p == nil || !p.Gone) { // it needs all the others
			if timeout {
				return failed
			}
			return open
		}
		if !timeout && (p == nil || p.Alive) {
			return open
		}
	}
	return won
}

// count moves on when the open round is decided.
func (m *machine) count(timeout bool) {
	switch m.outcome(timeout) {
	case open:
	case won:
		if m.phase == preVoting {
			m.startVote()
		} else {
			m.acquire()
		}
	case failed:
		pause := m.timing.Retry
		if m.phase == voting {
			// Let the guards of this failed vote run out.
			pause = max(pause, m.cand.sent+m.timing.VoteGuard-m.now)
		}
		m.pause(pause)
		m.phase = idle
	}
}

func (m *machine) pause(d time.Duration) {
	m.standFrom = max(m.standFrom, m.now+d+time.Duration(m.jitter*float64(m.timing.Retry)))
}

// abort ends an open candidacy.
func (m *machine) abort() {
	if m.phase == preVoting || m.phase == voting {
		m.phase = idle
	}
}
