package trust

import (
	"slices"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan/results"
)

// Voice is what an opinion weighs.
type Voice uint8

// Values of Voice.
const (
	// Doubted is that of a stranger that has shown too little yet.
	Doubted Voice = iota
	// Owned is that of a stranger about a job of its own owner: it counts, and
	// shows nothing of others, whom an owner could make good or bad by it.
	Owned
	// Established is that of a stranger that has shown enough.
	Established
	// Member is that of a member of the cluster.
	Member
)

// counts reports that among opinions that agree one of these is enough.
func (v Voice) counts() bool { return v > Doubted }

// shows reports that who agrees with it was right, and who does not wrong.
func (v Voice) shows() bool { return v >= Established }

// Opinion is a valid result of a chunk that is not accepted yet. Its worker keeps it.
type Opinion struct {
	Node    cluster.NodeID
	Attempt int
	Owner   string
	Voice   Voice
	Result  *job.ChunkResult
	Seconds float64
}

// Rule is how the opinions of one chunk settle it.
type Rule struct {
	Wanted    int     // equal ones, by as many
	Tolerance float64 // as job.Replication
	// Fit says that somebody is fit to be asked whose word counts.
	Fit bool
}

// MaxOpinions is how many opinions about a chunk are gathered before it is given up.
const MaxOpinions = 7

// owners is how many of them must agree where nobody's word counts.
const owners = 3

// Check is the opinions about one chunk. A nil Check has none.
type Check struct{ Seen []Opinion }

// Knows reports that a worker has said its opinion.
func (c *Check) Knows(n cluster.NodeID) bool {
	return c != nil && slices.ContainsFunc(c.Seen, func(o Opinion) bool { return o.Node == n })
}

// Doubtful reports that strangers alone have spoken, of whom none may be believed: who
// is asked next is one whose word counts.
func (c *Check) Doubtful() bool {
	return c != nil && len(c.Seen) > 0 && !slices.ContainsFunc(c.Seen, func(o Opinion) bool { return o.Voice == Member })
}

// Equal lists the opinions that are the same as o.
func (c *Check) Equal(o Opinion, r Rule) (out []Opinion) {
	for _, s := range c.Seen {
		if results.Agree(*s.Result, *o.Result, r.Tolerance) {
			out = append(out, s)
		}
	}
	return out
}

// Enough reports whether opinions that agree settle their chunk, and whether that shows
// who was right.
func (r Rule) Enough(agree []Opinion) (enough, shows bool) {
	var strange []string
	votes, counts := 0, false
	for _, o := range agree {
		counts, shows = counts || o.Voice.counts(), shows || o.Voice.shows()
		if o.Voice == Member {
			votes++
		} else if !slices.Contains(strange, o.Owner) {
			strange = append(strange, o.Owner)
		}
	}
	votes += len(strange)
	if counts {
		return votes >= r.Wanted, shows
	}
	return !r.Fit && votes >= max(r.Wanted, owners), false
}

// Standing is how many opinions are to be counted: of strangers that nobody believes, only
// while no member has spoken, or if one said the same. However many of them say
// otherwise, they make no chunk undecided.
func (c *Check) Standing(r Rule) int {
	if !slices.ContainsFunc(c.Seen, func(o Opinion) bool { return o.Voice == Member }) {
		return len(c.Seen)
	}
	n := 0
	for _, o := range c.Seen {
		if o.Voice != Doubted || slices.ContainsFunc(c.Equal(o, r), func(s Opinion) bool { return s.Voice == Member }) {
			n++
		}
	}
	return n
}
