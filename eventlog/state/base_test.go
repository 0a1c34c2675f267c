package state

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// upTo is the beginning of every chain.
func upTo(chains []*chain, at []int) []*chain {
	out := make([]*chain, len(chains))
	for i, c := range chains {
		out[i] = &chain{src: c.src, events: c.events[:at[i]]}
	}
	return out
}

// beyond is the rest of every chain.
func beyond(chains []*chain, at []int) []*chain {
	out := make([]*chain, len(chains))
	for i, c := range chains {
		out[i] = &chain{src: c.src, events: c.events[at[i]:]}
	}
	return out
}

func lengths(chains []*chain) []int {
	at := make([]int, len(chains))
	for i, c := range chains {
		at[i] = len(c.events)
	}
	return at
}

// TestEveryBaseGivesTheSame folds histories from the beginning, from the bytes
// of a snapshot, from a snapshot on top of a snapshot, and from a state in
// memory, each in another order of arrival: the bytes are the same.
func TestEveryBaseGivesTheSame(t *testing.T) {
	rebuilds, kept := 0, 0
	for seed := range uint64(rounds(25, 5000)) {
		rng := rand.New(rand.NewPCG(seed, 8))
		chains := history(rng)
		first := lengths(chains)
		if rng.IntN(2) == 0 { // not all of it is in the snapshot
			for i := range first {
				first[i] = rng.IntN(first[i] + 1)
			}
		}
		later(rng, chains, first)
		second := lengths(chains)
		later(rng, chains, second)

		genesis, _ := fold(rng, chains...)
		want := encoded(t, genesis)
		base, _ := fold(rng, upTo(chains, first)...)
		based, n := foldOn(t, rng, base, beyond(chains, first)...)
		if refused, _ := based.Refused(); refused > 0 {
			continue // the first part held a term that reaches below
		}
		rebuilds, kept = rebuilds+n, kept+1
		if !bytes.Equal(encoded(t, based), want) {
			t.Fatalf("seed %d: from a snapshot another state", seed)
		}
		middle, _ := foldOn(t, rng, base, beyond(upTo(chains, second), first)...)
		last, n := foldOn(t, rng, middle, beyond(chains, second)...)
		rebuilds += n
		if refused, _ := last.Refused(); refused > 0 || !bytes.Equal(encoded(t, last), want) {
			t.Fatalf("seed %d: from the second snapshot another state, %d events refused", seed, refused)
		}
		before := encoded(t, base)
		var rest []event.Event
		for _, c := range beyond(chains, first) {
			rest = append(rest, c.events...)
		}
		genesis.Refold(base, slices.Values(rest))
		if !bytes.Equal(encoded(t, genesis), want) || !bytes.Equal(encoded(t, base), before) {
			t.Fatalf("seed %d: folded again on a state in memory, the result or the base differ", seed)
		}
		genesis.Refold(nil, func(yield func(event.Event) bool) {
			for _, c := range chains {
				for _, e := range c.events {
					if !yield(e) {
						return
					}
				}
			}
		})
		if !bytes.Equal(encoded(t, genesis), want) {
			t.Fatalf("seed %d: folded again from nothing, another state", seed)
		}
	}
	if rebuilds == 0 || kept == 0 {
		t.Errorf("%d rebuilds on %d bases: the test lost its point", rebuilds, kept)
	}
}

// later goes on with a history: terms that know all up to at, and holders that
// were deposed.
func later(rng *rand.Rand, chains []*chain, at []int) {
	var top cluster.Term
	hlc := cluster.HLC(0)
	holding := make([]cluster.Term, len(chains))
	for i, c := range chains {
		for _, e := range c.events {
			top, hlc = max(top, e.Term), max(hlc, e.HLC)
			holding[i] = max(holding[i], e.Term)
		}
	}
	for range 20 + rng.IntN(40) {
		i := rng.IntN(len(chains))
		hlc += cluster.HLC(1 + rng.IntN(3))
		if rng.IntN(8) > 0 && holding[i] > 0 {
			randomEvent(rng, chains[i], hlc, holding[i], []job.ID{"j1", "j2", "j3", "j4"}[rng.IntN(4)])
			continue
		}
		top++
		holding[i] = top
		body := event.TermStart{Term: top}
		for k, o := range chains {
			seq := uint64(at[k] + rng.IntN(len(o.events)-at[k]+1))
			if k == i {
				seq = o.seq()
			}
			if seq > 0 {
				body.Cut = append(body.Cut, event.SourceMark{Source: o.src, Mark: event.Mark{Seq: seq}})
			}
		}
		chains[i].add(hlc, top, event.KindTermStart, body)
	}
}

// foldOn applies what lies beyond base to its decoded bytes, in a random order.
func foldOn(t *testing.T, rng *rand.Rand, base *State, rest ...*chain) (s *State, rebuilds int) {
	t.Helper()
	b := encoded(t, base)
	s, err := Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	next := make([]int, len(rest))
	var seen []event.Event
	for {
		var open []int
		for i, c := range rest {
			if next[i] < len(c.events) {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			return s, rebuilds
		}
		i := open[rng.IntN(len(open))]
		e := rest[i].events[next[i]]
		next[i]++
		seen = append(seen, e)
		if s.Apply(e) {
			rebuilds++
			if _, err := s.AppendBinary(nil); !errors.Is(err, ErrStale) {
				t.Fatalf("bytes of a stale state: %v", err)
			}
			if _, ok := s.Result("j1"); ok {
				t.Fatal("a result of a stale state")
			}
			on, err := Decode(b)
			if err != nil {
				t.Fatal(err)
			}
			s.Refold(on, slices.Values(seen))
		}
	}
}

// TestForksOnABase tells readers who began with a snapshot, and one who did
// not, of a fork beyond it: they agree, also about a later snapshot.
func TestForksOnABase(t *testing.T) {
	rebuilt := 0
	for seed := range uint64(rounds(25, 5000)) {
		rng := rand.New(rand.NewPCG(seed, 17))
		chains := history(rng)
		at := lengths(chains)
		later(rng, chains, at)
		liar := rng.IntN(len(chains))
		src, seq := chains[liar].src, uint64(at[liar]+1+rng.IntN(len(chains[liar].events)-at[liar]+2))
		base, _ := fold(rng, upTo(chains, at)...)
		var rest []event.Event
		for _, c := range beyond(chains, at) {
			rest = append(rest, c.events...)
		}
		based, _ := foldOn(t, rng, base, beyond(chains, at)...)
		if based.Fork(src, seq) {
			rebuilt++
			based.Refold(base, slices.Values(rest))
		}
		early, err := Decode(encoded(t, base))
		if err != nil {
			t.Fatal(err)
		}
		early.Fork(src, seq)
		stale := false
		for _, e := range rest {
			stale = early.Apply(e) || stale
		}
		if stale {
			early.Refold(base, slices.Values(rest))
		}
		genesis, _ := fold(rng, chains...)
		if genesis.Fork(src, seq) {
			genesis.Refold(nil, func(yield func(event.Event) bool) {
				for _, c := range chains {
					for _, e := range c.events {
						if !yield(e) {
							return
						}
					}
				}
			})
		}
		want := encoded(t, genesis)
		for name, s := range map[string]*State{"told at the end": based, "told first": early} {
			if refused, _ := s.Refused(); refused > 0 || !bytes.Equal(encoded(t, s), want) {
				t.Fatalf("seed %d: %s: another state, %d events refused", seed, name, refused)
			}
		}
	}
	if rebuilt == 0 {
		t.Error("no fork ended what was folded: the test lost its point")
	}
}
