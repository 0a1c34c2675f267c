package coord

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/coord/wire"
)

// Reasons of refusal that this package adds to those of wire.
const (
	reasonMajor      wire.Reason = "major"       // sender runs another major version of the program
	reasonProfile    wire.Reason = "profile"     // lease message of another timing profile
	reasonStaleClaim wire.Reason = "stale_claim" // role publisher under a term that is over
)

// metrics are the counters of one Service.
type metrics struct {
	peers      *prometheus.GaugeVec
	rtt        *prometheus.GaugeVec
	dropped    *prometheus.CounterVec
	duplicates prometheus.Counter
	stale      prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		peers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "skein_coord_peers", Help: "Other members, by health.",
		}, []string{"health"}),
		rtt: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "skein_coord_rtt_seconds", Help: "Smoothed round trip to a peer.",
		}, []string{"peer"}),
		dropped:    vec("skein_coord_notices_dropped_total", "Lease actions or notices whose reader was too slow.", "kind"),
		duplicates: counter("skein_coord_duplicates_total", "Times two processes with the identity of one host were found."),
		stale:      gauge("skein_coord_stale_members", "Members that were not heard for 5 minutes."),
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.peers, m.rtt, m.dropped, m.stale, m.duplicates,
	} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register coord metrics: %w", err)
	}
	return m, nil
}
