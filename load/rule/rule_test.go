package rule

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/stat"
)

var steps = []*load.Step{{Name: "login"}, {Name: "pay", Expect: load.Expect{Checks: make([]*load.Check, 1)}}}

func must(t *testing.T, text string) *Rule {
	t.Helper()
	r, err := parse(text, steps)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	r.When = text
	return r
}

func TestParse(t *testing.T) {
	for text, bound := range map[string]float64{
		"p(95)<500": 0.5, "pay: p(99)<0.8s": 0.8, "first_byte.avg <= 50ms": 0.05, "rate(failed)<1%": 0.01, "rate(checks) >= 0.999": 0.999,
		"login:count(timeout)==0": 0, "rps>100": 100, "med<250us": 250e-6, "p(99.9)<1.5m": 90, "max != 3": 0.003, "pay:connect.min<1e2": 0.1,
	} {
		if r := must(t, text); math.Abs(r.bound-bound) > 1e-12 {
			t.Errorf("%s: bound %g, want %g", text, r.bound, bound)
		}
	}
	for text, want := range map[string]string{
		"p95<500":          "no threshold",
		"p(101)<5":         "0 to 100",
		"buy: p(95)<500":   `no step "buy", there are login, pay`,
		"p(95)<500%":       "no time",
		"p(95)<-5":         "no time",
		"rate(nope)<1":     `no class "nope"`,
		"rate<1":           "one argument",
		"avg(5)<1":         "one argument",
		"rps>5s":           "unit",
		"rate(failed)<2":   "share",
		"queue.p(95)<5":    "no phase",
		"tls.rate(ok)>0.5": "no phases",
		"p(95)<NaN":        "no threshold",
		"p(95)<1e999":      "no number",
		"p(95)":            "no threshold",
	} {
		if _, err := parse(text, steps); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func window(latency time.Duration, n, bad int) *stat.Bank {
	w := stat.NewBank(2, 1)
	for i := range n {
		s := stat.Sample{Series: 1, Checks: []bool{i >= bad}}
		if i < bad {
			s.Class = load.HTTP5xx
		}
		s.Times[stat.Latency], s.Have[stat.Latency] = latency, true
		w.Record(&s)
	}
	return w
}

// run shows a judge windows, and says at which of them it would end the run.
func run(t *testing.T, text string, th load.Threshold, at func(i int) *stat.Bank, n int) (Outcome, int) {
	t.Helper()
	r := must(t, text)
	th.When = text
	r.Threshold = th
	j := NewJudge([]*Rule{r}, 2, 1)
	ended := -1
	for i := range n {
		if o := j.Add(time.Duration(i+1)*stat.Step, at(i)); o != nil && ended < 0 {
			ended = i
		}
	}
	return j.End()[0], ended
}

func TestJudge(t *testing.T) {
	steady := func(d time.Duration) func(int) *stat.Bank { return func(int) *stat.Bank { return window(d, 10, 0) } }
	slowAt := func(from, to int) func(int) *stat.Bank {
		return func(i int) *stat.Bank {
			if i >= from && i < to {
				return window(900*time.Millisecond, 10, 5)
			}
			return window(10*time.Millisecond, 10, 0)
		}
	}
	none := func(int) *stat.Bank { return stat.NewBank(2, 1) }
	second := load.Threshold{Window: time.Second}
	for _, c := range []struct {
		name, text string
		th         load.Threshold
		at         func(int) *stat.Bank
		ok         bool
		ended      int
	}{
		{"whole run holds", "p(95)<500", load.Threshold{}, steady(100 * time.Millisecond), true, -1},
		{"whole run breached", "p(95)<50", load.Threshold{}, steady(100 * time.Millisecond), false, -1},
		{"of another step there is nothing", "login: p(95)<500", load.Threshold{}, steady(100 * time.Millisecond), false, -1},
		{"no samples", "p(95)<500", load.Threshold{}, none, false, -1},
		{"no samples in a window", "p(95)<500", load.Threshold{Window: time.Second, Abort: true}, none, false, 9},
		{"a short breach in a window", "p(95)<500", second, slowAt(30, 35), false, -1},
		{"a short breach is allowed", "p(95)<500", load.Threshold{Window: time.Second, Hold: 5 * time.Second}, slowAt(30, 35), true, -1},
		{"a long breach is not", "p(95)<500", load.Threshold{Window: time.Second, Hold: 3 * time.Second, Abort: true}, slowAt(30, 99), false, 60},
		{"not before the delay", "p(95)<500", load.Threshold{Window: time.Second, Delay: 6 * time.Second}, slowAt(10, 40), true, -1},
		{"the share of failures", "rate(failed)<10%", load.Threshold{Window: time.Second, Abort: true}, slowAt(50, 60), false, 51},
		{"checks of a step", "pay: rate(checks)>0.99", load.Threshold{}, slowAt(50, 60), false, -1},
		{"abort without a window", "rate(failed)<20%", load.Threshold{Abort: true}, slowAt(0, 100), false, 0},
		{"requests a second", "rps>=100", second, steady(time.Millisecond), true, -1},
		{"fewer requests a second", "rps>100.1", load.Threshold{}, steady(time.Millisecond), false, -1},
		{"greatest of a window", "max<500", load.Threshold{Window: time.Second, Abort: true}, slowAt(20, 21), false, 20},
	} {
		o, ended := run(t, c.text, c.th, c.at, 100)
		if o.OK != c.ok || ended != c.ended {
			t.Errorf("%s: ok %t, ended at %d (%+v)", c.name, o.OK, ended, o)
		}
	}
	if o, _ := run(t, "p(95)<100", load.Threshold{}, steady(99500*time.Microsecond), 5); !o.Close {
		t.Errorf("not close: %+v", o)
	}
}

func TestNoneOK(t *testing.T) {
	var s stat.Series
	if NoneOK(&s) != nil {
		t.Error("nothing ended, and that is a fault")
	}
	s.Classes[load.DNS] = 5
	if v, why := Decide(NoneOK(&s), "", false, nil); v != Failed || len(why) != 1 {
		t.Errorf("%s %q", v, why)
	}
	if s.Classes[load.OK] = 1; NoneOK(&s) != nil {
		t.Error("one is ok")
	}
}

func TestDecide(t *testing.T) {
	good, bad := Outcome{OK: true, Text: "a"}, Outcome{Text: "b"}
	late := &stat.Hist{}
	for range 100 {
		late.Record(7 * time.Millisecond)
	}
	doubts := Self{Late: late, Latency: 0.02, CPU: 0.9, Own: 3, Gap: 2 * time.Second, Slowed: "slowed"}.Doubts()
	if len(doubts) != 5 {
		t.Errorf("%q", doubts)
	}
	when := Self{Late: late, CPU: 0.9, Own: 3, Gap: 2 * time.Second, Slowed: "slowed", When: stat.When{Late: 3, CPU: 12.5, Own: 0.1, Gap: 7.2, Slowed: 61}}.Doubts()
	for i, end := range []string{", worst in second 2", ", most in the 10 s until second 12", ", the first in second 0", ", until second 7", ", first in second 60"} {
		if when[i] != doubts[i]+end {
			t.Errorf("%q, want %q", when[i], doubts[i]+end)
		}
	}
	if d := (Self{Late: late, Latency: 0.2, CPU: 0.8, Gap: time.Second}).Doubts(); d != nil {
		t.Errorf("7 ms late of 200: %q", d)
	}
	few := &stat.Hist{}
	for i := range 50 {
		few.Record(time.Duration(i/49) * 7 * time.Millisecond)
	}
	if d := (Self{Late: few}).Doubts(); d != nil {
		t.Errorf("one of 50: %q", d)
	}
	few.Record(7 * time.Millisecond)
	if d := (Self{Late: few}).Doubts(); len(d) != 1 {
		t.Errorf("two of 51: %q", d)
	}
	for _, c := range []struct {
		outcomes []Outcome
		ended    string
		stopped  bool
		doubts   []string
		want     Verdict
	}{
		{nil, "", false, nil, Passed},
		{[]Outcome{good, bad}, "", false, nil, Failed},
		{[]Outcome{good, bad}, "harm", false, doubts, Aborted},
		{[]Outcome{good}, "harm", false, nil, Aborted},
		{[]Outcome{good}, "", true, nil, Stopped},
		{[]Outcome{bad}, "", true, nil, Failed},
		{[]Outcome{good}, "", false, doubts, Suspect},
		{[]Outcome{bad}, "", false, doubts, Failed},
	} {
		if v, why := Decide(c.outcomes, c.ended, c.stopped, c.doubts); v != c.want || (v == Passed) != (len(why) == 0) {
			t.Errorf("%+v: %s %q", c, v, why)
		}
	}
}
