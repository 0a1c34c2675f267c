package postgres

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are skein_postgres_*.
type metrics struct {
	serving prometheus.Gauge
	waiting prometheus.Gauge
	taken   *prometheus.CounterVec // by what became of it
	sunk    prometheus.Counter
	differ  prometheus.Counter
	failed  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "skein_postgres_" + name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "skein_postgres_" + name, Help: help})
	}
	m := &metrics{
		serving: gauge("serving", "1 while this host, as the holder, serves the database."),
		waiting: gauge("unsunk_jobs", "Ended jobs that the table is not known to have, on the holder."),
		taken: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_postgres_intake_total", Help: "Jobs of the table, by what became of them: taken or rejected.",
		}, []string{"state"}),
		sunk:   counter("sunk_total", "Ends of jobs that the table has by this host's word."),
		differ: counter("differing_results_total", "Jobs of which the table has another result than the log."),
		failed: counter("failures_total", "Times that serving the database ended before the term did."),
	}
	for _, state := range []string{"taken", "rejected"} {
		m.taken.WithLabelValues(state)
	}
	if reg == nil {
		return m, nil
	}
	var err error
	for _, c := range []prometheus.Collector{m.serving, m.waiting, m.taken, m.sunk, m.differ, m.failed} {
		err = errors.Join(err, reg.Register(c))
	}
	return m, err
}
