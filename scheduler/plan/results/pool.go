package results

import (
	"fmt"

	"github.com/skein-project/skein/cluster/job"
)

// AlarmAfter is how many chunks must be known before one can be odd.
const AlarmAfter = 8

// Pool is a running summary of the metrics of one job, in the order in which its
// chunks came. It is good enough for alarms and for stopping early.
type Pool struct{ metrics map[string]*pooled }

// pooled is the summary of one metric.
type pooled struct {
	chunks int
	all    job.Metric // without sketch
}

// NewPool returns a pool of metrics with those names, of which no chunk is known.
func NewPool(names ...string) *Pool {
	p := &Pool{metrics: make(map[string]*pooled, len(names))}
	for _, name := range names {
		p.metrics[name] = &pooled{}
	}
	return p
}

// moments is m without its sketch, which nothing here needs.
func moments(m job.Metric) job.Metric {
	m.Sketch = nil
	return m
}

// Len returns how many metrics there are.
func (p *Pool) Len() int { return len(p.metrics) }

// LenWith returns how many there would be with those of r.
func (p *Pool) LenWith(r job.ChunkResult) int {
	n := len(p.metrics)
	for name := range r.Metrics {
		if p.metrics[name] == nil {
			n++
		}
	}
	return n
}

// Add takes a result in.
func (p *Pool) Add(r job.ChunkResult) {
	for name, m := range r.Metrics {
		o := p.metrics[name]
		if o == nil {
			o = &pooled{}
			p.metrics[name] = o
		}
		o.all = o.all.Merge(moments(m))
		o.chunks++
	}
}

// Odd says what is unlikely about a result, or "": see job.Metric.Strays.
func (p *Pool) Odd(r job.ChunkResult) string {
	which := ""
	for name, m := range r.Metrics { // the first by name, whatever the order
		o := p.metrics[name]
		if o == nil || o.chunks < AlarmAfter || which != "" && name > which {
			continue
		}
		if m.Strays(o.all.Merge(moments(m))) {
			which = name
		}
	}
	if which == "" {
		return ""
	}
	return fmt.Sprintf("the mean of metric %q is %g, more than six standard errors from %g", which, r.Metrics[which].Mean, p.metrics[which].all.Mean)
}

// Known reports whether the metric that stop names is known well enough.
func (p *Pool) Known(stop job.EarlyStop) bool {
	if !stop.On() {
		return false
	}
	o := p.metrics[stop.Metric]
	if o == nil || o.all.N < stop.MinN || o.chunks < 2 || o.all.RelativeError() > stop.RelError {
		return false
	}
	return true
}
