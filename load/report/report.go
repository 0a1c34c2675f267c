package report

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/rule"
	"github.com/skein-project/skein/load/stat"
)

// Run is what an engine hands over.
type Run struct {
	Started  time.Time
	Length   time.Duration // that was judged
	Warmup   time.Duration
	Whole    *stat.Bank // without the warm-up
	Warm     *stat.Bank // warm-up, setup, teardown
	Timeline []stat.Point
	Outcomes []rule.Outcome
	Verdict  rule.Verdict
	Why      []string
	Doubts   []string
	Self     rule.Self
	Errors   []ErrorText
	Notes    []string // what else happened, as rows that were used up
	Peak     stat.Gauges
	Slices
}

// Slices is what is known of the slices of a run, or by one.
type Slices struct {
	Ended string // why it ended before its time; empty: it did not
	Hosts []Host // of a run on several
	Marks []Mark
}

// Mark is an instant of a run at which something happened.
type Mark struct {
	At   float64 `json:"at"` // seconds of the run
	Text string  `json:"text"`
}

// ErrorText is how a class of a step looked the first time.
type ErrorText struct {
	Step  string
	Class load.Class
	Text  string
}

// Version is that of the document. Fields are added within one, never changed.
const Version = 1

// Report is the document. Times are in seconds.
type Report struct {
	Version    int               `json:"version"`
	Name       string            `json:"name"`
	Verdict    rule.Verdict      `json:"verdict"`
	Why        []string          `json:"why,omitempty"`
	Started    time.Time         `json:"started"`
	Seconds    float64           `json:"seconds"`
	Warmup     float64           `json:"warmup_seconds,omitempty"`
	Requests   uint64            `json:"requests"`
	Iterations uint64            `json:"iterations"`
	Rate       float64           `json:"requests_per_second"`
	Failed     float64           `json:"failed"` // share
	Dropped    uint64            `json:"dropped"`
	BytesIn    uint64            `json:"bytes_in"`
	BytesOut   uint64            `json:"bytes_out"`
	Latency    Times             `json:"latency"`
	Phases     map[string]Times  `json:"phases"`
	Classes    map[string]uint64 `json:"classes"`
	Steps      []Step            `json:"steps"`
	Checks     []Check           `json:"checks,omitempty"`
	Thresholds []Threshold       `json:"thresholds,omitempty"`
	Errors     []Failure         `json:"errors,omitempty"`
	Notes      []string          `json:"notes,omitempty"`
	Generator  Generator         `json:"generator"`
	Hosts      []Host            `json:"hosts,omitempty"` // of a run on several
	Marks      []Mark            `json:"marks,omitempty"`
	Timeline   []Point           `json:"timeline"`
}

// Host is the part of one host in a run.
type Host struct {
	Name     string  `json:"host"`
	Share    float64 `json:"share"`
	Requests uint64  `json:"requests"`
	LateP99  float64 `json:"late_p99"`
	CPU      float64 `json:"cpu"`
	Clock    float64 `json:"clock"` // how uncertain its start is, in seconds
	Lost     string  `json:"lost,omitempty"`
}

// Times is a distribution.
type Times struct {
	Count  uint64      `json:"count"`
	Mean   float64     `json:"mean"`
	Min    float64     `json:"min"`
	P50    float64     `json:"p50"`
	P90    float64     `json:"p90"`
	P95    float64     `json:"p95"`
	P99    float64     `json:"p99"`
	P999   float64     `json:"p999"`
	Max    float64     `json:"max"`
	Sketch *job.Sketch `json:"sketch,omitempty"` // of latencies only
}

// Step is what came of one.
type Step struct {
	Name     string            `json:"name"`
	Method   string            `json:"method"`
	Requests uint64            `json:"requests"`
	Rate     float64           `json:"requests_per_second"`
	Failed   float64           `json:"failed"`
	Latency  Times             `json:"latency"`
	Phases   map[string]Times  `json:"phases"`
	Classes  map[string]uint64 `json:"classes"`
	Aside    bool              `json:"aside,omitempty"` // of setup or teardown, or of warm-up only: in no figure of the whole
}

// Check is how often one held.
type Check struct {
	Step   string `json:"step"`
	Text   string `json:"text"`
	Passed uint64 `json:"passed"`
	Failed uint64 `json:"failed"`
}

// Threshold is what one came to.
type Threshold struct {
	Text    string  `json:"text"`
	OK      bool    `json:"ok"`
	Value   float64 `json:"value"`
	Bound   float64 `json:"bound"`
	Unit    string  `json:"unit,omitempty"` // s, /s, share
	Samples bool    `json:"samples"`
	Close   bool    `json:"close,omitempty"`         // within what quantiles are exact to
	At      float64 `json:"breached_at_s,omitempty"` // it was breached for longer than allowed
}

// Failure is a class of errors of a step.
type Failure struct {
	Step  string `json:"step"`
	Class string `json:"class"`
	Count uint64 `json:"count"`
	First string `json:"first,omitempty"` // how it looked the first time
}

// Generator is what it knows of itself.
type Generator struct {
	LateP50   float64  `json:"late_p50"`
	LateP99   float64  `json:"late_p99"` // of starts for which a user was free
	LateMax   float64  `json:"late_max"`
	CPU       float64  `json:"cpu"` // the most over 10 s, of all processors
	Gap       float64  `json:"longest_gap"`
	PeakUsers int      `json:"peak_users"`
	PeakQueue int      `json:"peak_queue"`
	Doubts    []string `json:"doubts,omitempty"`
}

// Point is a span of time.
type Point struct {
	At      float64 `json:"at"` // its end
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"requests_per_second"`
	Failed  float64 `json:"failed"`
	Dropped uint64  `json:"dropped,omitempty"`
	P50     float64 `json:"p50"`
	P95     float64 `json:"p95"`
	P99     float64 `json:"p99"`
	Max     float64 `json:"max"`
	Users   int     `json:"users"`
	Queue   int     `json:"queue,omitempty"`
	CPU     float64 `json:"cpu"`
}

// New makes the document of a run.
func New(p *load.Plan, r *Run) *Report {
	all := r.Whole.All()
	length := math.Max(r.Length.Seconds(), stat.Step.Seconds())
	d := &Report{
		Version: Version, Name: p.Name, Verdict: r.Verdict, Why: r.Why, Started: r.Started.UTC().Truncate(time.Millisecond), Seconds: r.Length.Seconds(),
		Warmup: r.Warmup.Seconds(), Requests: all.Sent(), Iterations: r.Whole.Iterations, Rate: float64(all.Sent()) / length, Failed: share(all),
		Dropped: all.Classes[load.Dropped], BytesIn: all.In, BytesOut: all.Out, Latency: times(&all.Times[stat.Latency], true),
		Phases: phases(all), Classes: classes(all), Notes: r.Notes, Hosts: r.Hosts, Marks: r.Marks,
	}
	for i, st := range p.Steps {
		s := &r.Whole.Series[i]
		aside := s.Count() == 0
		if aside { // setup and teardown
			s = &r.Warm.Series[i]
		}
		d.Steps = append(d.Steps, Step{
			Name: st.Name, Method: st.Method, Requests: s.Sent(), Rate: float64(s.Sent()) / length, Failed: share(s),
			Latency: times(&s.Times[stat.Latency], true), Phases: phases(s), Classes: classes(s), Aside: aside && s.Count() > 0,
		})
	}
	for i, c := range p.Checks {
		t := r.Whole.Checks[i]
		d.Checks = append(d.Checks, Check{c.Step, c.Text, t.Passed, t.Failed})
	}
	for _, o := range r.Outcomes {
		d.Thresholds = append(d.Thresholds, Threshold{o.Text, o.OK, finite(o.Value), o.Bound, o.Unit, o.Samples, o.Close, o.Since.Seconds()})
	}
	d.failures(p, r)
	d.Generator = Generator{CPU: r.Self.CPU, Gap: r.Self.Gap.Seconds(), PeakUsers: r.Peak.Users, PeakQueue: r.Peak.Queue, Doubts: r.Doubts}
	if h := r.Self.Late; h != nil && h.N > 0 {
		d.Generator.LateP50, d.Generator.LateP99, d.Generator.LateMax = h.Quantile(0.5), h.Quantile(0.99), h.Max()
	}
	for _, p := range r.Timeline {
		d.Timeline = append(d.Timeline, point(p))
	}
	return d
}

func (d *Report) failures(p *load.Plan, r *Run) {
	for i, st := range p.Steps {
		for c := load.OK + 1; c < load.Classes; c++ {
			n := r.Whole.Series[i].Classes[c] + r.Warm.Series[i].Classes[c]
			if n == 0 {
				continue
			}
			f := Failure{Step: st.Name, Class: c.String(), Count: n}
			for _, e := range r.Errors {
				if e.Step == st.Name && e.Class == c {
					f.First = e.Text
				}
			}
			d.Errors = append(d.Errors, f)
		}
	}
}

func point(p stat.Point) Point {
	span := math.Max(p.Span.Seconds(), stat.Step.Seconds())
	out := Point{
		At: p.At.Seconds(), Seconds: p.Span.Seconds(), Rate: float64(p.Requests) / span, Dropped: p.Dropped, Max: p.Latency.Max,
		Users: p.Users, Queue: p.Queue, CPU: p.CPU,
	}
	if n := p.Requests + p.Dropped; n > 0 {
		out.Failed = math.Min(1, float64(p.Failed)/float64(n))
	}
	if p.Latency.N > 0 {
		var h stat.Hist
		h.AddMetric(p.Latency)
		out.P50, out.P95, out.P99 = h.Quantile(0.5), h.Quantile(0.95), h.Quantile(0.99)
	}
	return out
}

// finite: JSON has no other numbers.
func finite(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x
}

func share(s *stat.Series) float64 {
	if n := s.Count(); n > 0 {
		return float64(s.Failed()) / float64(n)
	}
	return 0
}

func times(h *stat.Hist, sketch bool) Times {
	if h.N == 0 {
		return Times{}
	}
	t := Times{
		Count: h.N, Mean: h.Mean(), Min: h.Min(), P50: h.Quantile(0.5), P90: h.Quantile(0.9), P95: h.Quantile(0.95), P99: h.Quantile(0.99),
		P999: h.Quantile(0.999), Max: h.Max(),
	}
	if sketch {
		t.Sketch = h.Metric().Sketch
	}
	return t
}

func phases(s *stat.Series) map[string]Times {
	out := map[string]Times{}
	for p := stat.Service; p < stat.Phases; p++ {
		if s.Times[p].N > 0 {
			out[p.String()] = times(&s.Times[p], false)
		}
	}
	return out
}

func classes(s *stat.Series) map[string]uint64 {
	out := map[string]uint64{}
	for c, n := range s.Classes {
		if n > 0 {
			out[load.Class(c).String()] = n
		}
	}
	return out
}

// MaxDocument bounds a document that is read.
const MaxDocument = 64 << 20

// Parse reads a document.
func Parse(text []byte) (*Report, error) {
	if len(text) > MaxDocument {
		return nil, fmt.Errorf("has %d bytes, at most %d are allowed", len(text), MaxDocument)
	}
	d := &Report{}
	if err := json.Unmarshal(text, d); err != nil {
		return nil, fmt.Errorf("is no report of a load test: %w", err)
	}
	if d.Version != Version {
		return nil, fmt.Errorf("is version %d of a report, this program knows version %d", d.Version, Version)
	}
	return d, nil
}
