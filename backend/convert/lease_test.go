package convert

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/state"
)

// TestTermsDoNotOverlap: a holder that was stopped and writes of its end when it
// goes on did not hold until then. In mode available it may have.
func TestTermsDoNotOverlap(t *testing.T) {
	base := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	at := func(second int) cluster.HLC { return cluster.NewHLC(base.Add(time.Duration(second)*time.Second), 0) }
	show := func(terms ...state.Term) string {
		var lines []string
		second := func(at *time.Time) string {
			if at == nil {
				return "-"
			}
			return fmt.Sprint(int(at.Sub(base).Seconds()))
		}
		for _, r := range slices.Backward(Terms(terms)) {
			lines = append(lines, fmt.Sprintf("%d %s %s..%s told %s: %s -> %s", r.Term, r.Holder, second(&r.StartedAt), second(r.EndedAt), second(r.ToldAt), r.Cause, r.Successor))
		}
		return strings.Join(lines, "\n")
	}
	for _, tc := range []struct {
		name  string
		terms []state.Term
		want  string
	}{
		{"handed over", []state.Term{
			{Term: 1, Holder: "n1", Started: at(0), Released: at(9), Reason: "drill", Successor: "n2"}, {Term: 2, Holder: "n2", Started: at(10)},
		}, "1 n1 0..9 told -: drill -> n2\n2 n2 10..- told -:  -> "},
		{"died", []state.Term{
			{Term: 1, Holder: "n1", Started: at(0)}, {Term: 2, Holder: "n2", Started: at(10)},
		}, "1 n1 0..10 told -: expired -> n2\n2 n2 10..- told -:  -> "},
		{"could not renew, by an earlier version", []state.Term{
			{Term: 1, Holder: "n1", Started: at(0), Released: at(9), Reason: "lease expired"}, {Term: 2, Holder: "n2", Started: at(10)},
		}, "1 n1 0..9 told -: expired -> \n2 n2 10..- told -:  -> "},
		{"stopped, and goes on", []state.Term{
			{Term: 1, Holder: "n1", Started: at(0), Released: at(45), Reason: "no majority"}, {Term: 2, Holder: "n2", Started: at(10)},
		}, "1 n1 0..10 told 45: no majority -> n2\n2 n2 10..- told -:  -> "},
		{"goes on in the term after the next", []state.Term{
			{Term: 1, Holder: "n1", Started: at(0), Released: at(45), Reason: "no majority"},
			{Term: 2, Holder: "n2", Started: at(10), Released: at(20), Reason: "drill", Successor: "n3"},
			{Term: 3, Holder: "n3", Started: at(21)},
		}, "1 n1 0..10 told 45: no majority -> n2\n2 n2 10..20 told -: drill -> n3\n3 n3 21..- told -:  -> "},
		{"two sides of a cut, and one again", []state.Term{
			{Term: 1, Holder: "n1", Started: at(0), Split: true, Released: at(45), Reason: "a better host"},
			{Term: 2, Holder: "n2", Started: at(10), Split: true},
			{Term: 3, Holder: "n2", Started: at(50), Split: true},
		}, "1 n1 0..45 told -: a better host -> \n2 n2 10..- told -: expired -> n2\n3 n2 50..- told -:  -> "},
		{"two sides of a cut, then a majority", []state.Term{
			{Term: 1, Holder: "n1", Started: at(0), Split: true, Released: at(70), Reason: "no majority"},
			{Term: 2, Holder: "n2", Started: at(10), Split: true},
			{Term: 3, Holder: "n2", Started: at(60)},
		}, "1 n1 0..60 told 70: no majority -> n2\n2 n2 10..60 told -: expired -> n2\n3 n2 60..- told -:  -> "},
		{"by a clock that was ahead", []state.Term{
			{Term: 1, Holder: "n1", Started: at(20)}, {Term: 2, Holder: "n2", Started: at(10)},
		}, "1 n1 20..- told -: expired -> n2\n2 n2 10..- told -:  -> "},
	} {
		if got := show(tc.terms...); got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", tc.name, got, tc.want)
		}
	}
}
