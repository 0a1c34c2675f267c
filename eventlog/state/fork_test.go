package state

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
)

// branch returns a copy of c whose events from seq fork on are others.
func (c *chain) branch(rng *rand.Rand, fork uint64) *chain {
	b := newChain(c.src.Node)
	b.events = slices.Clone(c.events[:fork-1])
	hlc := cluster.HLC(5000)
	for range 1 + rng.IntN(20) {
		hlc++
		randomEvent(rng, b, hlc, cluster.Term(1+rng.IntN(4)), "j1")
	}
	b.start(hlc+1, 99)
	return b
}

// TestForkEndsAChainForEveryone gives two readers two histories of one source,
// and the fork at any moment: they agree with each other, and with a reader who
// never saw an event behind it.
func TestForkEndsAChainForEveryone(t *testing.T) {
	rebuilt := 0
	for seed := range uint64(rounds(25, 5000)) {
		rng := rand.New(rand.NewPCG(seed, 7))
		chains := history(rng)
		liar := rng.IntN(len(chains))
		fork := 1 + rng.Uint64N(chains[liar].seq())
		other := slices.Clone(chains)
		other[liar] = chains[liar].branch(rng, fork)
		cut := slices.Clone(chains)
		cut[liar] = newChain(chains[liar].src.Node)
		cut[liar].events = chains[liar].events[:fork-1]

		var want cluster.Hash
		for i, view := range [][]*chain{cut, chains, other, chains} {
			got, rebuilds := foldForking(rng, chains[liar].src, fork, view...)
			rebuilt += rebuilds
			if i == 0 {
				want = got.Hash()
			}
			if got.Hash() != want {
				t.Fatalf("seed %d: reader %d of a fork at %s/%d disagrees", seed, i, chains[liar].src, fork)
			}
			if got.Seq(chains[liar].src) != fork-1 || got.Forks()[chains[liar].src] != fork {
				t.Fatalf("seed %d: %d events of the forked source count, want %d", seed, got.Seq(chains[liar].src), fork-1)
			}
			for _, c := range cut {
				src, have := c.src, got.Seq(c.src)
				if !got.Covers(event.Cursor{src: have}) || got.Covers(event.Cursor{src: have + 1}) != (src == chains[liar].src) {
					t.Fatalf("seed %d: after event %d of %s it covers up to %v and one more %v", seed, have, src,
						got.Covers(event.Cursor{src: have}), got.Covers(event.Cursor{src: have + 1}))
				}
			}
			if err := counts(got); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
	if rebuilt == 0 {
		t.Error("no fork voided a folded event: the test lost its point")
	}
}

// foldForking applies the chains in a random interleaving and tells of the fork
// of src, and of a later one of it, at random moments.
func foldForking(rng *rand.Rand, src event.SourceID, fork uint64, chains ...*chain) (s *State, rebuilds int) {
	s = New()
	var seen []event.Event
	refold := func(stale bool) {
		if stale {
			rebuilds++
			s.Refold(nil, slices.Values(seen))
		}
	}
	next := make([]int, len(chains))
	left := 0
	for _, c := range chains {
		left += len(c.events)
	}
	now, later := rng.IntN(left+1), rng.IntN(left+1)
	for n := 0; ; n++ {
		if n == later {
			refold(s.Fork(src, fork+1+rng.Uint64N(3)))
		}
		if n == now {
			refold(s.Fork(src, fork))
		}
		if n == left {
			return s, rebuilds
		}
		i := rng.IntN(len(chains))
		for next[i] == len(chains[i].events) {
			i = (i + 1) % len(chains)
		}
		e := chains[i].events[next[i]]
		next[i]++
		seen = append(seen, e)
		if s.Apply(e) {
			refold(true)
		}
	}
}

// TestForkGivesUpFences: the term that a liar began behind the fork ends, and
// what it voided counts again.
func TestForkGivesUpFences(t *testing.T) {
	a, b := newChain("a"), newChain("b")
	a.start(10, 1)
	b.add(11, 0, event.KindHostStarted, event.HostStarted{Version: "v"})
	b.start(12, 2) // with an empty cut: all of a's term is void
	a.submit(13, 1, "j1", testSpec("k", 100, 10))
	s := New()
	for _, c := range []*chain{b, a} {
		for _, e := range c.events {
			s.Apply(e)
		}
	}
	if _, ok := s.Job("j1"); ok {
		t.Fatal("the fence does not hold")
	}
	if !s.Fork(b.src, 2) {
		t.Fatal("no rebuild although a term is void now")
	}
	s.Refold(nil, slices.Values(append(slices.Clone(a.events), b.events...)))
	if _, ok := s.Job("j1"); !ok {
		t.Fatal("a void term still fences")
	}
	if s.Fork(b.src, 2) || s.Fork(b.src, 3) || s.Fork(b.src, 0) {
		t.Fatal("nothing new, and a rebuild")
	}
}
