package past

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/state"
)

// TestEvidence: until when a holder is known to have held the lease, and what is between
// that and the next term.
func TestEvidence(t *testing.T) {
	base := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	at := func(second int) cluster.HLC { return cluster.NewHLC(base.Add(time.Duration(second)*time.Second), 0) }
	chain := func(seconds ...int) (list []time.Time) {
		for _, s := range seconds {
			list = append(list, base.Add(time.Duration(s)*time.Second))
		}
		return list
	}
	n1, n1again, n2 := event.SourceID{Node: "n1", Inc: 1}, event.SourceID{Node: "n1", Inc: 2}, event.SourceID{Node: "n2", Inc: 1}
	for _, tc := range []struct {
		name   string
		terms  []state.Term
		chains map[event.SourceID][]time.Time
		oldest event.Cursor
		nobody bool
		want   string
	}{
		{
			name:  "handed over",
			terms: []state.Term{{Term: 1, Holder: "n1", Started: at(0), Released: at(9), Reason: "drill"}, {Term: 2, Holder: "n2", Started: at(10)}},
			want:  "1 until 9 gap -, 2 until - gap 1",
		},
		{
			name:   "died, and wrote when it was back",
			terms:  []state.Term{{Term: 1, Holder: "n1", Started: at(0)}, {Term: 2, Holder: "n2", Started: at(10)}},
			chains: map[event.SourceID][]time.Time{n1: chain(0, 3, 6, 30), n2: chain(1, 10, 11)},
			want:   "1 until 6 gap -, 2 until - gap 4",
		},
		{
			name:   "died with its disk, and wrote a new chain",
			terms:  []state.Term{{Term: 1, Holder: "n1", Started: at(0)}, {Term: 2, Holder: "n2", Started: at(10)}},
			chains: map[event.SourceID][]time.Time{n1: chain(0, 3, 6), n1again: chain(7, 40)},
			want:   "1 until 7 gap -, 2 until - gap 3",
		},
		{
			name:   "wrote nothing but the beginning",
			terms:  []state.Term{{Term: 1, Holder: "n1", Started: at(2)}, {Term: 2, Holder: "n2", Started: at(10)}},
			chains: map[event.SourceID][]time.Time{n1: chain(2)},
			want:   "1 until 2 gap -, 2 until - gap 8",
		},
		{
			name:   "what it wrote is no longer kept",
			terms:  []state.Term{{Term: 1, Holder: "n1", Started: at(2)}, {Term: 2, Holder: "n2", Started: at(10)}},
			chains: map[event.SourceID][]time.Time{n1: chain(2, 5)}, oldest: event.Cursor{n1: 2},
			want: "1 until 2 gap -, 2 until - gap 8",
		},
		{
			name:   "stopped, and told of the end only then",
			terms:  []state.Term{{Term: 1, Holder: "n1", Started: at(0), Released: at(45), Reason: "no majority"}, {Term: 2, Holder: "n2", Started: at(10)}},
			chains: map[event.SourceID][]time.Time{n1: chain(0, 4, 45)},
			want:   "1 until 4 gap -, 2 until - gap 6",
		},
		{
			name: "two sides of a cut, and one again",
			terms: []state.Term{
				{Term: 1, Holder: "n1", Started: at(0), Split: true, Released: at(45), Reason: "a better host"},
				{Term: 2, Holder: "n2", Started: at(10), Split: true},
				{Term: 3, Holder: "n2", Started: at(50), Split: true},
			},
			chains: map[event.SourceID][]time.Time{n1: chain(0, 45), n2: chain(10, 44, 50, 60)},
			want:   "1 until 45 gap -, 2 until 44 gap 0, 3 until - gap 5",
		},
		{
			name:   "nobody holds now",
			terms:  []state.Term{{Term: 1, Holder: "n1", Started: at(0)}},
			chains: map[event.SourceID][]time.Time{n1: chain(0, 3, 6)}, nobody: true,
			want: "1 until 6 gap -",
		},
	} {
		l := &fakeLog{chains: tc.chains, oldest: tc.oldest}
		p := New("n9", l, nil)
		for range 2 { // the second time what was found is remembered
			var got []string
			for _, r := range slices.Backward(p.Terms(t.Context(), tc.terms, tc.nobody)) {
				until, gap := "-", "-"
				if r.LastEvidenceAt != nil {
					until = fmt.Sprint(r.LastEvidenceAt.Sub(base).Seconds())
				}
				if r.GapSeconds != nil {
					gap = fmt.Sprint(*r.GapSeconds)
				}
				got = append(got, fmt.Sprintf("%d until %s gap %s", r.Term, until, gap))
			}
			if text := strings.Join(got, ", "); text != tc.want {
				t.Errorf("%s: %s, want %s", tc.name, text, tc.want)
			}
		}
		looks := l.looks
		p.Terms(t.Context(), tc.terms, tc.nobody)
		if l.looks != looks {
			t.Errorf("%s: looked again at chains that are as they were", tc.name)
		}
	}

	// What comes late is found, until the chain is known beyond the term.
	l := &fakeLog{chains: map[event.SourceID][]time.Time{n1: chain(0, 3)}}
	p := New("n9", l, nil)
	terms := []state.Term{{Term: 1, Holder: "n1", Started: at(0)}, {Term: 2, Holder: "n2", Started: at(10)}}
	for _, c := range []struct {
		chain []time.Time
		want  float64
	}{{chain(0, 3), 7}, {chain(0, 3, 5), 5}, {chain(0, 3, 5, 8, 20), 2}, {chain(0, 3, 5, 8, 20, 21), 2}} {
		l.chains[n1] = c.chain
		if got := *p.Terms(t.Context(), terms, false)[0].GapSeconds; got != c.want {
			t.Errorf("with %d events a gap of %g s, want %g", len(c.chain), got, c.want)
		}
	}
}
