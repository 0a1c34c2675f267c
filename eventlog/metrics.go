package eventlog

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	queued      prometheus.GaugeFunc
	rejected    *prometheus.CounterVec
	poisoned    prometheus.Gauge
	recovery    prometheus.Gauge
	rebuilds    prometheus.Counter
	refused     prometheus.Gauge
	reopened    prometheus.Counter
	appendTime  prometheus.Histogram
	propagation prometheus.Histogram
	verified    prometheus.Counter
	verifyRate  prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, in *intake) (*metrics, error) {
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
		queued: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "skein", Subsystem: "eventlog", Name: "intake_bytes", Help: "Bytes that wait for the writer or are being written.",
		}, func() float64 { return float64(in.bytes()) }),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "skein", Subsystem: "eventlog", Name: "rejected_total", Help: "Appends that were refused.",
		}, []string{"reason"}),
		poisoned:   gauge("poisoned", "1 after a failed write or sync."),
		recovery:   gauge("recovery_duration_seconds", "Time that opening the log took."),
		rebuilds:   counter("state_rebuilds_total", "Folds of the whole log because a late term start voided events."),
		refused:    gauge("state_refused_events", "Events without effect since they would change what the snapshot holds that the state goes on from."),
		reopened:   counter("reopened_total", "Recoveries of the running log after an i/o error."),
		appendTime: histogram("append_duration_seconds", "Time from an append's call until it was durable here. Of those that are queued together only the first counts.", prometheus.ExponentialBuckets(0.0001, 2, 17)),
		propagation: histogram("propagation_seconds",
			"Time from an event's stamp on another host until it was stored and folded here: as good as the two clocks agree, and to the millisecond. "+
				"Counts the last event of each group that was stamped after this log was opened.",
			prometheus.ExponentialBuckets(0.001, 2, 17)),
		verified:   counter("verified_records_total", "Events that verifications of this log have read."),
		verifyRate: gauge("verify_records_per_second", "Events per second of the last whole verification of this log."),
	}
	for _, r := range rejections {
		m.rejected.WithLabelValues(r.reason)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.queued, m.rejected, m.poisoned, m.recovery, m.rebuilds, m.refused, m.reopened, m.appendTime, m.propagation, m.verified, m.verifyRate,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register event log metrics: %w", err)
		}
	}
	return m, nil
}

// rejections are the reasons for which an append is refused, the narrow ones
// first.
var rejections = []struct {
	err    error
	reason string
}{
	{ErrFull, "full"},
	{ErrDiskFull, "disk_full"},
	{ErrClosed, "closed"},
	{ErrTooLarge, "too_large"},
	{ErrFenced, "fenced"},
	{ErrDraft, "draft"},
	{errCancelled, "cancelled"},
}

// reject counts why an append was refused.
func (m *metrics) reject(err error) {
	for _, r := range rejections {
		if errors.Is(err, r.err) {
			m.rejected.WithLabelValues(r.reason).Inc()
			return
		}
	}
}
