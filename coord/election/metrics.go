package election

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/lease"
)

// metrics are the counters of one Elector.
type metrics struct {
	term       prometheus.Gauge
	promised   prometheus.Gauge
	holding    prometheus.Gauge
	publishing prometheus.Gauge
	abstaining prometheus.Gauge
	refused    *prometheus.CounterVec
	changes    *prometheus.CounterVec
	voteSave   prometheus.Histogram
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &metrics{
		term:       gauge("skein_lease_term", "Highest term this host knows of."),
		promised:   gauge("skein_lease_promised_term", "Term that this voter last promised."),
		holding:    gauge("skein_lease_holder", "1 while this host holds the lease."),
		abstaining: gauge("skein_lease_abstaining", "1 while this voter abstains because it lost its vote record."),
		refused:    vec("skein_lease_refused_total", "Lease messages that the core refused as wrong or late, by reason.", "reason"),
		publishing: gauge("skein_lease_publishing", "1 while this host has the publishing duty."),
		changes:    vec("skein_lease_changes_total", "Terms acquired and lost by this host.", "change"),
		voteSave: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "skein_lease_vote_save_seconds", Help: "Time to make a vote durable.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}),
	}
	for _, why := range lease.RefusedReasons() {
		m.refused.WithLabelValues(why)
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.term, m.promised, m.holding, m.publishing, m.abstaining, m.refused, m.changes, m.voteSave,
	} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register election metrics: %w", err)
	}
	return m, nil
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
