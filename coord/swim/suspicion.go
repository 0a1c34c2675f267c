package swim

import (
	"container/heap"
	"math"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// suspicion is the doubt in a host.
type suspicion struct {
	since    time.Duration // last sign of life that was missed
	until    time.Duration // then it is failed; moves to earlier only
	own      bool          // by own evidence: this host goes on asking
	accusers []cluster.NodeID
	heard    int // most witnesses that anyone named
	again    time.Duration
}

// witnesses are how many hosts beside the first accuser could not reach it.
func (s *suspicion) witnesses() int {
	return min(max(len(s.accusers)-1, s.heard), MaxWitnesses)
}

// patience is the time from the beginning of a suspicion with that many
// witnesses to its end, in a cluster of n hosts.
func patience(t Timing, n, witnesses int) time.Duration {
	least := float64(t.Suspicion) * math.Log10(float64(max(n, 10)))
	missing := 1 - math.Log(float64(witnesses+1))/math.Log(MaxWitnesses+1)
	return time.Duration(least * (1 + 2*max(missing, 0)))
}

// grace is the least time that a suspected host has to refute what this host
// learns by hearsay, however old it is.
const grace = time.Second

// suspect begins a suspicion of p or adds to it.
func (c *Core) suspect(p *peer, by []cluster.NodeID, witnesses int, since time.Duration, own bool) {
	news := false
	if p.state != Suspect {
		c.set(p, Suspect)
		p.since, p.until, p.doubted, news = since, never, true, true
		c.stats.Suspicions++
		if own {
			c.stats.Accusations++
		}
	}
	before := p.witnesses()
	for _, n := range by {
		if len(p.accusers) <= MaxWitnesses && !slices.Contains(p.accusers, n) {
			p.accusers = append(p.accusers, n)
		}
	}
	if p.suspicion.heard = max(p.suspicion.heard, witnesses); p.witnesses() > before {
		news = true
	}
	if own && !p.own {
		p.own, p.again = true, c.now+c.t.Period
	}
	wait := patience(c.t, c.living, p.witnesses())
	if own {
		wait = c.scaled(wait)
	}
	if until := max(p.since+wait, c.now+grace); until < p.until {
		p.until = until
		heap.Push(&c.suspects, deadline{at: until, peer: p})
	}
	if news && !p.private {
		c.rumour(p, accusation)
	}
}

// expire ends the suspicions whose time has come.
func (c *Core) expire() {
	for len(c.suspects) > 0 && c.suspects[0].at <= c.now {
		d, _ := heap.Pop(&c.suspects).(deadline)
		// An entry that was pushed again for an earlier moment is void.
		if p := d.peer; p.state == Suspect && p.until == d.at && c.peers[p.node] == p {
			c.end(p, Failed, p.since)
		}
	}
}

// deadline is when a suspicion ends.
type deadline struct {
	at   time.Duration
	peer *peer
}

// suspicions is a min-heap of deadlines.
type suspicions []deadline

func (s suspicions) next() time.Duration {
	if len(s) == 0 {
		return never
	}
	return s[0].at
}

// Len implements heap.Interface.
func (s suspicions) Len() int { return len(s) }

// Less implements heap.Interface.
func (s suspicions) Less(i, j int) bool { return s[i].at < s[j].at }

// Swap implements heap.Interface.
func (s suspicions) Swap(i, j int) { s[i], s[j] = s[j], s[i] }

// Push implements heap.Interface.
func (s *suspicions) Push(x any) {
	if d, ok := x.(deadline); ok {
		*s = append(*s, d)
	}
}

// Pop implements heap.Interface.
func (s *suspicions) Pop() any {
	last := len(*s) - 1
	d := (*s)[last]
	(*s)[last] = deadline{}
	*s = (*s)[:last]
	return d
}
