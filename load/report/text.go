package report

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/present"
)

// Millis is a time as people compare latencies.
func Millis(s float64) string {
	ms := s * 1e3
	switch {
	case math.IsNaN(s):
		return present.Unknown
	case ms < 10:
		return strconv.FormatFloat(ms, 'f', 2, 64)
	case ms < 100:
		return strconv.FormatFloat(ms, 'f', 1, 64)
	}
	return strconv.FormatFloat(ms, 'f', 0, 64)
}

// Percent is a share.
func Percent(x float64) string {
	switch p := x * 100; {
	case p == 0:
		return "0 %"
	case p < 1:
		return strconv.FormatFloat(p, 'g', 2, 64) + " %"
	default:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
}

// PerSecond is a rate.
func PerSecond(x float64) string {
	if x < 10 {
		return strconv.FormatFloat(x, 'f', 1, 64) + "/s"
	}
	return strconv.FormatFloat(x, 'f', 0, 64) + "/s"
}

// Quantity is a value in its unit.
func Quantity(x float64, unit string) string {
	switch unit {
	case "s":
		return Millis(x) + " ms"
	case "/s":
		return PerSecond(x)
	case "share":
		return Percent(x)
	}
	return strconv.FormatFloat(x, 'g', 6, 64)
}

// checksOf is the share of the checks of a step that held.
func (d *Report) checksOf(step string) (float64, bool) {
	passed, all := uint64(0), uint64(0)
	for _, c := range d.Checks {
		if c.Step == step {
			passed += c.Passed
			all += c.Passed + c.Failed
		}
	}
	return float64(passed) / math.Max(1, float64(all)), all > 0
}

// Table has a row for each step; plain cells are in seconds and shares.
func (d *Report) Table() present.Table {
	t := present.Table{Columns: []present.Column{
		{Name: "STEP"},
		{Name: "REQUESTS", Kind: present.Number, Rank: 3},
		{Name: "RATE", Kind: present.Number},
		{Name: "P50", Kind: present.Number},
		{Name: "P95", Kind: present.Number, Rank: 2},
		{Name: "P99", Kind: present.Number},
		{Name: "MAX", Kind: present.Number, Rank: 4},
		{Name: "FAILED", Kind: present.Number},
		{Name: "CHECKS", Kind: present.Number, Rank: 1},
		{Name: "MEAN", Kind: present.Number, Wide: true},
		{Name: "P90", Kind: present.Number, Wide: true},
		{Name: "P99.9", Kind: present.Number, Wide: true},
	}}
	plain := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	for _, s := range d.Steps {
		ms := func(x float64) present.Cell {
			if s.Latency.Count == 0 {
				return present.Cell{Text: present.Unknown}
			}
			return present.Cell{Text: Millis(x), Plain: plain(x)}
		}
		checks := present.Cell{Text: present.Unknown}
		if x, ok := d.checksOf(s.Name); ok {
			checks = present.Cell{Text: Percent(x), Plain: plain(x)}
		}
		t.Rows = append(t.Rows, []present.Cell{
			{Text: s.Name},
			{Text: strconv.FormatUint(s.Requests, 10)},
			{Text: PerSecond(s.Rate), Plain: plain(s.Rate)},
			ms(s.Latency.P50),
			ms(s.Latency.P95),
			ms(s.Latency.P99),
			ms(s.Latency.Max),
			{Text: Percent(s.Failed), Plain: plain(s.Failed)},
			checks,
			ms(s.Latency.Mean),
			ms(s.Latency.P90),
			ms(s.Latency.P999),
		})
	}
	return t
}

// ThresholdTable has a row for each threshold.
func (d *Report) ThresholdTable() present.Table {
	t := present.NewTable("", "THRESHOLD", "VALUE")
	for _, x := range d.Thresholds {
		state := "ok"
		if !x.OK {
			state = "fail"
		}
		t.Add(state, x.Text, x.says())
	}
	return t
}

// says is the value, and what is to be known of it.
func (x Threshold) says() string {
	if !x.Samples {
		return "no samples"
	}
	text := Quantity(x.Value, x.Unit)
	if x.Close {
		text += ", close"
	}
	if x.At > 0 {
		text += fmt.Sprintf(", at %s", present.Age(x.At))
	}
	return text
}

// CheckTable has a row for each check that did not always hold.
func (d *Report) CheckTable() present.Table {
	t := present.NewTable("CHECK", "STEP", "FAILED", "OF")
	for _, c := range d.Checks {
		if c.Failed > 0 {
			t.Add(c.Text, c.Step, strconv.FormatUint(c.Failed, 10), strconv.FormatUint(c.Passed+c.Failed, 10))
		}
	}
	return t
}

// ErrorTable has a row for each class of errors of a step.
func (d *Report) ErrorTable() present.Table {
	t := present.NewTable("ERROR", "STEP", "COUNT", "FIRST")
	for _, e := range d.Errors {
		t.Add(e.Class, e.Step, strconv.FormatUint(e.Count, 10), e.First)
	}
	return t
}

// HostTable has a row for each host of a run on several.
func (d *Report) HostTable() present.Table {
	t := present.NewTable("HOST", "SHARE", "REQUESTS", "LATE P99", "CPU", "CLOCK", "LOST")
	for _, h := range d.Hosts {
		cpu := Percent(h.CPU)
		if h.Lost != "" { // it said so in the end only
			cpu = present.Unknown
		}
		t.Add(h.Name, Percent(h.Share), strconv.FormatUint(h.Requests, 10), Millis(h.LateP99), cpu, "+-"+Millis(h.Clock), h.Lost)
	}
	return t
}

// Headline is the run in a line.
func (d *Report) Headline() string {
	return fmt.Sprintf("%s: %s, %d requests in %s, %s, failed %s", d.Name, d.Verdict, d.Requests, present.Age(d.Seconds), PerSecond(d.Rate), Percent(d.Failed))
}

// Lines are what stands above the tables.
func (d *Report) Lines() []string {
	l := d.Latency
	out := []string{d.Headline()}
	for _, w := range d.Why {
		out = append(out, "  "+w)
	}
	if l.Count > 0 {
		out = append(out, fmt.Sprintf("latency  p50 %s  p90 %s  p95 %s  p99 %s  p99.9 %s  max %s ms", Millis(l.P50), Millis(l.P90), Millis(l.P95), Millis(l.P99), Millis(l.P999), Millis(l.Max)))
	}
	if d.Dropped > 0 {
		out = append(out, fmt.Sprintf("dropped  %d arrivals found no user within 10 s of arrivals: the target is slower than the rate, or max_users too few", d.Dropped))
	}
	return append(out, d.Notes...)
}

// junit is the form that CI systems read.
type junit struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Stamp    string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// JUnit has a test case for each threshold, each check, and the verdict, which is no failure
// if it is one of those that are accepted.
func (d *Report) JUnit(accept ...string) ([]byte, error) {
	seconds := strconv.FormatFloat(d.Seconds, 'f', 3, 64)
	suite := func(name string) junitSuite {
		return junitSuite{Name: name, Stamp: d.Started.Format("2006-01-02T15:04:05")}
	}
	add := func(s *junitSuite, name, class, failure string) {
		c := junitCase{Name: clean(name), Class: clean(class), Time: seconds}
		if s.Tests++; failure != "" {
			s.Failures++
			c.Failure = &junitFailure{Message: clean(failure), Text: clean(d.Headline())}
		}
		s.Cases = append(s.Cases, c)
	}
	run, thresholds, checks := suite("run"), suite("thresholds"), suite("checks")
	failure := ""
	// A breached threshold is a failure of its own.
	own := d.Verdict == rule.Failed && slices.ContainsFunc(d.Thresholds, func(t Threshold) bool { return !t.OK })
	if d.Verdict != rule.Passed && !own && !slices.Contains(accept, string(d.Verdict)) {
		failure = string(d.Verdict) + ": " + strings.Join(d.Why, "; ")
	}
	add(&run, "verdict", d.Name, failure)
	for _, t := range d.Thresholds {
		failure := ""
		if !t.OK {
			failure = "is " + t.says()
		}
		add(&thresholds, t.Text, d.Name+".thresholds", failure)
	}
	for _, c := range d.Checks {
		failure := ""
		if c.Failed > 0 {
			failure = fmt.Sprintf("failed %d of %d times", c.Failed, c.Passed+c.Failed)
		}
		add(&checks, c.Text, d.Name+"."+c.Step, failure)
	}
	all := junit{Name: clean(d.Name), Time: seconds}
	for _, s := range []junitSuite{run, thresholds, checks} {
		if s.Tests > 0 {
			all.Suites = append(all.Suites, s)
			all.Tests += s.Tests
			all.Failures += s.Failures
		}
	}
	b, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write JUnit: %w", err)
	}
	return slices.Concat([]byte(xml.Header), b, []byte("\n")), nil
}

// clean leaves out what XML cannot say.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 && r != '\t' && r != '\n' || r == 0xfffe || r == 0xffff {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}
