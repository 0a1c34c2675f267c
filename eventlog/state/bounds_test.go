package state

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/cluster/job"
)

// TestHistoryIsBounded lives through more terms, ends and actions than are
// kept, on two chains in different orders: the same ones remain, and the sum
// of the others is the same.
func TestHistoryIsBounded(t *testing.T) {
	const terms = MaxTerms + 300
	a, b := newChain("a"), newChain("b")
	var cut event.Cut
	for i := range terms {
		c := []*chain{a, b}[i%2]
		cut = event.Cut{{Source: a.src, Mark: event.Mark{Seq: a.seq()}}, {Source: b.src, Mark: event.Mark{Seq: b.seq()}}}
		hlc, term := cluster.HLC(10*i+10), cluster.Term(i+1)
		c.add(hlc, term, event.KindTermStart, event.TermStart{Term: term, Cut: cut, Split: i%10 == 0})
		c.add(hlc+1, 0, event.KindLeaseReleased, event.LeaseReleased{Term: term, Reason: fmt.Sprint(i)})
		c.add(hlc+2, 0, event.KindTokenCreated, event.TokenChanged{Invite: fmt.Sprint(i), Actor: strings.Repeat("x", 300)})
		c.add(hlc+3, 0, event.KindPublishing, event.Publishing{Publishing: true, Term: term})
	}
	var want []byte
	for seed := range uint64(2) {
		s := New()
		rng := rand.New(rand.NewPCG(seed, 14))
		next := map[*chain]int{}
		for next[a]+next[b] < len(a.events)+len(b.events) {
			c := []*chain{a, b}[rng.IntN(2)]
			// A run ahead of the other chain; a fence that comes late must not
			// find anything to void, so each cut is lawful.
			for range 1 + rng.IntN(2000) {
				if next[c] < len(c.events) {
					if s.Apply(c.events[next[c]]) {
						t.Fatal("a rebuild of a lawful history")
					}
					next[c]++
				}
			}
		}
		if got := encoded(t, s); want == nil {
			want = got
		} else if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: another state", seed)
		}
		list, older := s.Terms(), s.older
		if len(list) != MaxTerms || list[0].Term != terms-MaxTerms+1 || list[0].Reason != fmt.Sprint(terms-MaxTerms) {
			t.Fatalf("%d terms from %+v", len(list), list[0])
		}
		if older.terms != 300 || older.splits != 30 || older.first.term != 1 || older.first.at.HLC != 10 {
			t.Fatalf("older terms %+v", older)
		}
		acts, pubs := s.Actions(), s.published.values()
		if len(acts) != MaxActions || acts[MaxActions-1].Subject != fmt.Sprint(terms-1) || len(acts[0].Actor) != maxActor ||
			len(pubs) != MaxPublications || pubs[0].Term != terms-MaxPublications+1 {
			t.Fatalf("%d actions, %d publications", len(acts), len(pubs))
		}
		if d, err := Decode(want); err != nil || len(d.fences.all) > 1 {
			t.Fatalf("%v; %d fences kept beyond the base", err, len(d.fences.all))
		}
	}
}

// TestWhatReachesBelowTheBase is refused, counted and named, and changes
// nothing; the same event beyond the base does what it always did.
func TestWhatReachesBelowTheBase(t *testing.T) {
	a, b := newChain("a"), newChain("b")
	a.start(10, 1)
	a.submit(20, 1, "j1", testSpec("k", 60, 10))
	a.accept(30, 1, "j1", 0, 1, result(10, 1))
	base, _ := fold(rand.New(rand.NewPCG(1, 15)), a)
	raw := encoded(t, base)

	blind := newChain("b")
	blind.add(1, 0, event.KindHostStarted, event.HostStarted{Version: "v"})
	blind.start(40, 2) // knows nothing of a
	earlier := newChain("c")
	earlier.add(11, 1, event.KindJobSubmitted, event.JobSubmitted{Job: "j1", Spec: testSpec("k", 20, 10), Owner: "uid:1", Chunks: 2})
	for name, c := range map[string]*chain{"fence": blind, "submission": earlier} {
		s, err := Decode(raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range c.events {
			if s.Apply(e) {
				t.Errorf("%s: a rebuild was asked for, but the events are gone", name)
			}
		}
		n, latest := s.Refused()
		last := c.events[len(c.events)-1]
		if n != 1 || len(latest) != 1 || latest[0].Source != c.src || latest[0].Seq != last.Seq || latest[0].Kind != last.Kind || latest[0].Reason == "" {
			t.Errorf("%s: refused %d, %+v", name, n, latest)
		}
		if j, _ := s.Job("j1"); j.Chunks != 6 || j.Counts.Accepted != 1 {
			t.Errorf("%s: changed the job to %+v", name, j)
		}
		if len(s.Terms()) != 1 {
			t.Errorf("%s: terms %+v", name, s.Terms())
		}
		whole := slices.Concat(a.events, c.events)
		s = New()
		for _, e := range whole {
			s.Apply(e)
		}
		s.Refold(nil, slices.Values(whole))
		if j, ok := s.Job("j1"); ok && j.Chunks == 6 {
			t.Errorf("%s: does nothing to a fold from the first event", name)
		}
	}

	s, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if s.Fork(a.src, 2) {
		t.Error("fork: a rebuild was asked for, but the events are gone")
	}
	if n, latest := s.Refused(); n != 1 || latest[0].Source != a.src || latest[0].Seq != 2 {
		t.Errorf("fork: refused %d, %+v", n, latest)
	}
	before := s.Hash()
	s.Apply(a.accept(50, 1, "j1", 1, 1, result(10, 1)))
	if s.Hash() != before || s.Seq(a.src) != 3 {
		t.Error("an event of a forked source counts")
	}
	b.add(60, 0, event.KindHostStarted, event.HostStarted{Version: "v"})
	s.Refold(base, slices.Values(b.events))
	if n, _ := s.Refused(); n != 1 || s.Forks()[a.src] != 2 || s.Seq(b.src) != 1 {
		t.Errorf("after a rebuild: %d refused, forks %v", n, s.Forks())
	}
}

// TestSealedJobsForget: the first end that tells a result decides it, whatever
// else is learned of the chunks, before or after.
func TestSealedJobsForget(t *testing.T) {
	a, b := newChain("a"), newChain("b")
	a.begin(1, 2, true)
	b.begin(1, 3, true)
	a.submit(2, 2, "j1", testSpec("k", 20, 10))
	a.accept(3, 2, "j1", 0, 1, result(10, 1))
	a.accept(4, 2, "j1", 1, 1, result(10, 3))
	mine := job.Result{Accepted: 2, Iterations: 20, Metrics: map[string]job.Metric{"x": {N: 20, Mean: 2, Min: 0, Max: 4}}}
	a.add(6, 2, event.KindJobDone, event.JobDone{Job: "j1", State: job.Completed, Result: &mine})
	b.accept(2, 3, "j1", 0, 1, result(10, 7))                                    // earlier, and of another result
	b.add(5, 3, event.KindJobDone, event.JobDone{Job: "j1", State: job.Partial}) // as an older version would
	b.add(7, 3, event.KindJobDone, event.JobDone{Job: "j1", State: job.Failed, Result: &job.Result{}})
	bad := job.Result{Accepted: 3}
	b.add(2, 3, event.KindJobDone, event.JobDone{Job: "j1", State: job.Failed, Result: &bad})
	for seed := range uint64(30) {
		s, _ := fold(rand.New(rand.NewPCG(seed, 16)), a, b)
		j, _ := s.Job("j1")
		if j.State != job.Partial || j.Counts != (ChunkCounts{Accepted: 2}) || j.Disputed != 0 || j.Aggregates[0].Mean != 2 {
			t.Fatalf("seed %d: %+v, want the first end's state and the first result", seed, j)
		}
		if len(s.Open("j1")) != 0 || len(s.Unfinished("j1")) != 0 {
			t.Fatal("the chunks are kept")
		}
		if _, _, malformed := s.Counts(); malformed != 1 {
			t.Fatalf("%d malformed events, want that of the impossible result", malformed)
		}
	}
}
