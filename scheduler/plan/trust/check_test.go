package trust

import (
	"fmt"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/job"
)

// Rule 4: whose opinions settle a chunk, and what that shows.
func TestEnough(t *testing.T) {
	member := Opinion{Voice: Member}
	old := Opinion{Voice: Established, Owner: "visitor:9"}
	own := Opinion{Voice: Owned, Owner: "ann"}
	by := func(owner string) Opinion { return Opinion{Owner: owner} }
	for _, c := range []struct {
		agree         []Opinion
		wanted        int
		fit           bool
		enough, shows bool
	}{
		{[]Opinion{member}, 2, true, false, true},
		{[]Opinion{member, member}, 2, true, true, true},
		{[]Opinion{member, by("a")}, 2, true, true, true},
		{[]Opinion{member, by("a"), by("a")}, 3, true, false, true},
		{[]Opinion{old}, 2, true, false, true},
		{[]Opinion{old, by("a")}, 2, true, true, true},
		{[]Opinion{old, by("visitor:9")}, 2, true, false, true}, // one owner twice
		{[]Opinion{own, by("a")}, 2, true, true, false},
		{[]Opinion{own, by("ann")}, 2, true, false, false},
		{[]Opinion{by("a"), by("b")}, 2, true, false, false},
		{[]Opinion{by("a"), by("b"), by("c"), by("d")}, 2, true, false, false},
		{[]Opinion{by("a"), by("b")}, 2, false, false, false},
		{[]Opinion{by("a"), by("a"), by("b"), by("b")}, 2, false, false, false},
		{[]Opinion{by("a"), by("b"), by("c")}, 2, false, true, false},
		{[]Opinion{by("a"), by("b"), by("c")}, 4, false, false, false},
		{[]Opinion{by(""), by(""), by("")}, 2, false, false, false},
	} {
		enough, shows := Rule{Wanted: c.wanted, Fit: c.fit}.Enough(c.agree)
		if enough != c.enough || shows != c.shows {
			t.Errorf("%+v of %d, fit %t: enough %t, shows %t", c.agree, c.wanted, c.fit, enough, shows)
		}
	}
}

// However many strangers say something else than a member, that does not make it
// undecided.
func TestStanding(t *testing.T) {
	result := func(mean float64) *job.ChunkResult {
		return &job.ChunkResult{Iterations: 1, Metrics: map[string]job.Metric{"x": {N: 1, Mean: mean}}}
	}
	c := &Check{}
	for i := range 20 {
		c.Seen = append(c.Seen, Opinion{Node: cluster.NodeID(fmt.Sprint("s", i)), Result: result(float64(i))})
	}
	if n := c.Standing(Rule{}); n != 20 || !c.Doubtful() {
		t.Errorf("%d opinions stand", n)
	}
	c.Seen = append(c.Seen, Opinion{Node: "m", Voice: Member, Result: result(3)}, Opinion{Node: "e", Voice: Established, Result: result(-1)})
	if n := c.Standing(Rule{}); n != 3 || c.Doubtful() || !c.Knows("m") || c.Knows("n") {
		t.Errorf("%d opinions stand beside a member's", n)
	}
	var none *Check
	if none.Knows("m") || none.Doubtful() {
		t.Error("nobody has spoken")
	}
}

func TestBook(t *testing.T) {
	var b Book
	id := func(i int) cluster.NodeID { return cluster.OutsideID([]byte{byte(i), byte(i >> 8)}) }
	if s := b.Standing(id(0)); !s.Stranger || s.Distrusted() {
		t.Errorf("an outside worker begins as %+v", s)
	}
	if s := b.Standing("n1"); s.Stranger || !s.Trusted() {
		t.Errorf("a host begins as %+v", s)
	}
	for i := range maxKept + 10 {
		b.Keep(id(i), Standing{Stranger: true, Wrong: MaxWrong})
		b.Keep(id(i), Standing{Stranger: true, Wrong: MaxWrong})
	}
	b.Keep("n1", Standing{Wrong: 9})
	b.Keep(id(20), Standing{Stranger: true})
	if first, last := b.Standing(id(9)), b.Standing(id(maxKept+9)); first.Distrusted() || !last.Distrusted() || len(b.of) != maxKept || len(b.line) != maxKept {
		t.Errorf("%d are kept of whom %t, %t", len(b.of), first.Distrusted(), last.Distrusted())
	}
}

func TestSamples(t *testing.T) {
	n, same := 0, 0
	for i := range 64_000 {
		a, b := Salt{1}.Samples("j", i), Salt{2}.Samples("j", i)
		if a {
			n++
		}
		if a && b {
			same++
		}
	}
	if n < 850 || n > 1150 || same > 60 {
		t.Errorf("%d of 64000 are checked, %d of them under another salt too", n, same)
	}
}
