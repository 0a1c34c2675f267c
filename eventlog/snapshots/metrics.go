package snapshots

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	done        *prometheus.CounterVec
	mismatches  prometheus.Counter
	damaged     prometheus.Counter
	events      prometheus.Gauge
	clock       prometheus.Gauge
	bytes       prometheus.Gauge
	signers     prometheus.Gauge
	seconds     prometheus.Histogram
	fetched     prometheus.Counter
	reclaimable prometheus.Gauge
	dropped     *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	opts := func(name, help string) prometheus.Opts {
		return prometheus.Opts{Namespace: "skein", Subsystem: "eventlog", Name: name, Help: help}
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts(opts(name, help)))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts(opts(name, help)))
	}
	m := &metrics{
		done: prometheus.NewCounterVec(prometheus.CounterOpts(opts("snapshot_steps_total",
			"What was done about snapshots: taken as the holder, signed for it, made here, fetched, segments dropped.")), []string{"step", "result"}),
		mismatches:  counter("snapshot_mismatches_total", "Snapshots of the voters whose state differs from what this host folds."),
		damaged:     counter("snapshots_damaged_total", "Snapshot files that could not be read when the log was opened."),
		events:      gauge("snapshot_events", "Events that the last snapshot stands for."),
		clock:       gauge("snapshot_timestamp_seconds", "Clock of the last event in the last snapshot."),
		bytes:       gauge("snapshot_bytes", "Size of the encoded state in the last snapshot."),
		signers:     gauge("snapshot_signers", "Voters that signed the last snapshot."),
		fetched:     counter("snapshot_fetched_bytes_total", "Bytes of snapshots fetched from other hosts."),
		reclaimable: gauge("reclaimable_bytes", "Bytes of segments that retention may drop, since a snapshot holds their events."),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "skein", Subsystem: "eventlog", Name: "snapshot_duration_seconds",
			Help: "Time from the choice of a cut to its logged snapshot.", Buckets: prometheus.ExponentialBuckets(0.01, 4, 8),
		}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts(opts("dropped_total",
			"What retention dropped.")), []string{"what"}),
	}
	for _, step := range []string{"take", "sign", "make", "fetch", "compact"} {
		for _, result := range []string{"ok", "refused", "failed"} {
			m.done.WithLabelValues(step, result)
		}
	}
	m.dropped.WithLabelValues("segments")
	m.dropped.WithLabelValues("bytes")
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.done, m.mismatches, m.damaged, m.events, m.clock, m.bytes, m.signers, m.fetched, m.reclaimable, m.seconds, m.dropped,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}
