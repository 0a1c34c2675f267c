package report

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/load/stat"
	"github.com/skein-project/skein/present"
)

const evil = `<script>alert(1)</script>"'&` + "\x01\xff"

// sample is a run of ten seconds, whose names are hostile.
func sample(t *testing.T, latency time.Duration) *Report {
	t.Helper()
	s, err := load.FromURL("http://x/", 0, 1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Compile(load.Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	p.Name = "shop " + evil
	p.Checks = []load.CheckName{{Step: "get", Text: "body contains '" + evil + "'"}}
	r := &Run{
		Started: time.Unix(1_800_000_000, 0), Length: 10 * time.Second, Whole: stat.NewBank(1, 1), Warm: stat.NewBank(1, 1),
		Verdict: rule.Failed, Why: []string{"breached: p(95)<5 " + evil},
		Outcomes: []rule.Outcome{{Text: "p(95)<5", Value: 0.04, Bound: 0.005, Unit: "s", Samples: true}, {Text: "rps>1", OK: true, Value: 100, Unit: "/s", Samples: true}, {Text: "x: max<5"}},
		Errors:   []ErrorText{{"get", load.Refused, evil}},
	}
	var line stat.Timeline
	for i := range 100 {
		w := stat.NewBank(1, 1)
		for k := range 10 {
			x := stat.Sample{Checks: []bool{k > 0}}
			if k == 0 && i%10 == 0 {
				x.Class = load.Refused
			}
			d := latency + time.Duration(i*k)*time.Microsecond*20
			x.Times[stat.Latency], x.Have[stat.Latency] = d, true
			x.Times[stat.FirstByte], x.Have[stat.FirstByte] = d/2, true
			w.Record(&x)
		}
		r.Whole.Add(w)
		line.Add(time.Duration(i+1)*stat.Step, w, stat.Gauges{Users: 5, Queue: i})
	}
	line.End()
	r.Timeline = line.Points
	return New(p, r)
}

func TestReport(t *testing.T) {
	d := sample(t, 20*time.Millisecond)
	if d.Requests != 1000 || d.Rate != 100 || math.Abs(d.Failed-0.01) > 1e-9 || d.Latency.P50 < 0.02 || d.Latency.P50 > 0.03 || len(d.Timeline) != 10 || d.Errors[0].Count != 10 {
		t.Errorf("%+v", d)
	}
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(b)
	if err != nil || again.Latency.P99 != d.Latency.P99 || !again.Latency.Sketch.Equal(d.Latency.Sketch) {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"", "{}", `{"version":2}`, "[]"} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	text := strings.Join(d.Lines(), "\n") + d.Table().Write(present.FormTable, 0, nil)
	for _, want := range []string{"1000 requests in 10s, 100/s, failed 1.0 %", "P99", "get"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// What others say is text in the page and in the XML, never markup.
func TestNothingOfOthersIsMarkup(t *testing.T) {
	d := sample(t, time.Millisecond)
	d.Marks, d.Generator.Doubts = []Mark{{3, "n2 lost " + evil}, {1e9, "later"}}, []string{"n1: " + evil}
	page := string(d.HTML())
	if strings.Count(page, "n2 lost") != 3 || !strings.Contains(page, "in doubt: n1") {
		t.Error("what happened is not on the page")
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "http://") || strings.Count(page, "<svg") != 4 || !strings.Contains(page, "&lt;script&gt;") {
		t.Error("markup of others, or something to fetch")
	}
	svg := page[strings.Index(page, "<svg"):]
	svg = svg[:strings.Index(svg, "</svg>")+6]
	for dec := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(page, "NaN") || strings.Contains(page, "Inf") {
		t.Error("a number that is none")
	}
	b, err := d.JUnit()
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Suites   []struct {
			Cases []struct {
				Name    string `xml:"name,attr"`
				Failure *struct {
					Message string `xml:"message,attr"`
				} `xml:"failure"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if back.Tests != 5 || back.Failures != 3 || back.Suites[1].Cases[2].Failure.Message != "is no samples" {
		t.Errorf("%s", b)
	}
}

// The case of the verdict fails where nothing else would say so: what is accepted does not.
func TestVerdictInJUnit(t *testing.T) {
	for _, c := range []struct {
		verdict    rule.Verdict
		thresholds []Threshold
		accept     []string
		failures   string
	}{
		{rule.Passed, []Threshold{{Text: "p(95)<5", OK: true}}, nil, `failures="0"`},
		{rule.Failed, []Threshold{{Text: "p(95)<5"}}, nil, `failures="1"`},
		{rule.Failed, nil, nil, `failures="1"`}, // no request ended as it should
		{rule.Failed, []Threshold{{Text: "p(95)<5", OK: true}}, []string{"suspect"}, `failures="1"`},
		{rule.Suspect, nil, nil, `failures="1"`},
		{rule.Suspect, nil, []string{"incomplete"}, `failures="1"`},
		{rule.Suspect, nil, []string{"suspect"}, `failures="0"`},
		{rule.Incomplete, nil, []string{"suspect", "incomplete"}, `failures="0"`},
		{rule.Aborted, []Threshold{{Text: "p(95)<5"}}, nil, `failures="2"`},
	} {
		b, err := (&Report{Name: "x", Verdict: c.verdict, Why: []string{"why"}, Thresholds: c.thresholds}).JUnit(c.accept...)
		if err != nil {
			t.Fatal(err)
		}
		_, head, _ := strings.Cut(string(b), "<testsuites")
		if head, _, _ = strings.Cut(head, ">"); !strings.Contains(head, c.failures) {
			t.Errorf("%s, accepted %q: %s, want %s", c.verdict, c.accept, head, c.failures)
		}
	}
}

// A run in which nothing ended is a page as well.
func TestEmptyRun(t *testing.T) {
	s, err := load.FromURL("http://x/", 0, 1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	p, err := s.Compile(load.Inputs{})
	if err != nil {
		t.Fatal(err)
	}
	d := New(p, &Run{Whole: stat.NewBank(1, 0), Warm: stat.NewBank(1, 0), Timeline: []stat.Point{{At: time.Second, Span: time.Second}}})
	if page := string(d.HTML()); strings.Contains(page, "NaN") || len(d.Lines()) == 0 {
		t.Error(page)
	}
	if _, err := json.Marshal(d); err != nil {
		t.Error(err)
	}
}

func TestCompare(t *testing.T) {
	old := sample(t, 20*time.Millisecond)
	worse := func(now *Report, allowed float64) (out []string) {
		for _, d := range Compare(old, now, allowed) {
			if d.Worse && d.Step == "" {
				out = append(out, d.What)
			}
		}
		return out
	}
	if w := worse(old, 0); w != nil {
		t.Errorf("worse than itself: %q", w)
	}
	slow := sample(t, 40*time.Millisecond)
	if w := worse(slow, 0.1); len(w) != 3 {
		t.Errorf("%q", w)
	}
	if w := worse(slow, 1.5); w != nil {
		t.Errorf("%q", w)
	}
	slow.Rate, slow.Failed = 80, 0.02
	if w := worse(slow, 1.5); w != nil {
		t.Errorf("%q", w)
	}
	if w := worse(slow, 0.1); len(w) != 5 {
		t.Errorf("%q", w)
	}
	if !strings.Contains(CompareTable(Compare(old, slow, 0.1)).Write(present.FormTable, 0, nil), "-20.0 %") {
		t.Error("the table lacks the change")
	}
}
