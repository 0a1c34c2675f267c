package slice

import (
	"errors"
	"math"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/guard"
	"github.com/skein-project/skein/load/stat"
)

// metrics are what all slices of this host counted.
type metrics struct {
	requests *prometheus.CounterVec // by class
	blocked  *prometheus.CounterVec // by why
	late     *lateness
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_load_requests_total", Help: "Requests of load tests from this host, by how they ended (docs/load.md).",
		}, []string{"class"}),
		blocked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_load_blocked_total", Help: "Requests of load tests that this host did not send, by why their address is refused.",
		}, []string{"why"}),
		late: &lateness{desc: prometheus.NewDesc("skein_load_late_seconds", "How late requests of load tests began for this host's own sake.", nil, nil)},
	}
	for c := range load.Classes {
		m.requests.WithLabelValues(c.String())
	}
	for _, r := range guard.Reasons {
		m.blocked.WithLabelValues(string(r))
	}
	if reg == nil {
		return m, nil
	}
	return m, errors.Join(reg.Register(m.requests), reg.Register(m.blocked), reg.Register(m.late))
}

// count takes in what a frame has.
func (m *metrics) count(o *stat.Own) {
	for c, n := range o.Classes {
		if n > 0 {
			m.requests.WithLabelValues(load.Class(c).String()).Add(float64(n)) //nolint:gosec // of few classes
		}
	}
	m.late.add(&o.Late)
}

// The buckets of lateness end at powers of two seconds, where those of a stat.Hist do: 61 us
// to 1 s.
const (
	lateLeast = -14
	lateMost  = 0
)

// lateness is a histogram to which whole distributions are added.
type lateness struct {
	desc *prometheus.Desc
	mu   sync.Mutex
	all  stat.Hist
}

func (l *lateness) add(h *stat.Hist) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all.Add(h)
}

// Describe implements prometheus.Collector.
func (l *lateness) Describe(out chan<- *prometheus.Desc) { out <- l.desc }

// Collect implements prometheus.Collector.
func (l *lateness) Collect(out chan<- prometheus.Metric) {
	l.mu.Lock()
	defer l.mu.Unlock()
	buckets := make(map[float64]uint64, lateMost-lateLeast+1)
	for octave := lateLeast; octave <= lateMost; octave++ {
		buckets[math.Exp2(float64(octave))] = l.all.Within(octave)
	}
	out <- prometheus.MustNewConstHistogram(l.desc, l.all.N, l.all.Mean()*float64(l.all.N), buckets)
}
