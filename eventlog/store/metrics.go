package store

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	records   prometheus.Counter
	received  prometheus.Counter
	size      prometheus.Gauge
	fsync     prometheus.Histogram
	groups    prometheus.Counter
	truncated prometheus.Counter
	sources   prometheus.Gauge
	forks     prometheus.Counter
	durable   prometheus.Gauge

	groupRecords prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "skein", Subsystem: "eventlog", Name: name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "skein", Subsystem: "eventlog", Name: name, Help: help})
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "skein", Subsystem: "eventlog", Name: name, Help: help, Buckets: buckets})
	}
	m := &metrics{
		records:   counter("records_total", "Events in the log: recovered, appended and received."),
		received:  counter("received_records_total", "Events stored for other sources."),
		size:      gauge("size_bytes", "Bytes of all segments, without preallocated space."),
		fsync:     histogram("fsync_duration_seconds", "Time of one sync of one segment.", prometheus.ExponentialBuckets(0.0001, 2, 14)),
		groups:    counter("commit_groups_total", "Commit groups made durable."),
		truncated: counter("torn_tails_total", "Interrupted writes cut off when the log was opened."),
		sources:   gauge("sources", "Chains in the log."),
		forks:     counter("equivocations_total", "Sources proven to have signed two histories."),
		durable:   gauge("durable_seq", "Last durable event of the own chain."),

		groupRecords: histogram("commit_group_records", "Events in one commit group of one chain.", prometheus.ExponentialBuckets(1, 2, 11)),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.records, m.received, m.size, m.fsync, m.groups, m.truncated, m.sources, m.forks, m.durable, m.groupRecords,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the store: %w", err)
		}
	}
	return m, nil
}

// Syncs is the histogram of how long a sync of a segment takes.
func (s *Store) Syncs() prometheus.Metric { return s.m.fsync }
