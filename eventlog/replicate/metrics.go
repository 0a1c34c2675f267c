package replicate

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/eventlog/wire"
)

type metrics struct {
	acks       *prometheus.CounterVec
	pulls      *prometheus.CounterVec
	peerErrors *prometheus.CounterVec
	stable     prometheus.Gauge
	following  prometheus.Gauge
	behind     prometheus.Gauge
	fetchRate  prometheus.Gauge
	ackTime    prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "skein", Subsystem: "eventlog", Name: name, Help: help})
	}
	vec := func(name, help, label string, values ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "skein", Subsystem: "eventlog", Name: name, Help: help}, []string{label})
		for _, value := range values {
			v.WithLabelValues(value)
		}
		return v
	}
	m := &metrics{
		acks:       vec("push_acks_total", "Answers of voters to pushed events.", "result", "stored", "refused"),
		pulls:      vec("pulls_total", "Pulls from other hosts.", "result", "equal", "fetched", "error"),
		peerErrors: vec("peer_errors_total", "Refused data of other hosts.", "reason", "frame", "chain", "signature", "clock", "unknown_source", "equivocation", "proof", "snapshot", "quota", "disk_full", "timeout"),
		stable:     gauge("stable_seq", "Last stable event of the own chain."),
		following:  gauge("following", "1 while another host notifies this one of new events immediately."),
		behind:     gauge("behind_events", "Events that the host asked last has and that are not here yet."),
		fetchRate:  gauge("catch_up_records_per_second", "Events stored per second in the last fetch of at least 1000 from another host."),
		ackTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "skein", Subsystem: "eventlog", Name: "push_ack_duration_seconds",
			Help: "Time from the push of own events to a voter until it had them on its disk.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 17),
		}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.acks, m.pulls, m.peerErrors, m.stable, m.following, m.behind, m.fetchRate, m.ackTime} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of replication: %w", err)
		}
	}
	return m, nil
}

// blamed is an error for which a peer was counted.
type blamed struct{ error }

func (b *blamed) Unwrap() error { return b.error }

// blame counts what a peer sent and this host refused.
func (m *metrics) blame(reason string, err error) error {
	m.peerErrors.WithLabelValues(reason).Inc()
	return &blamed{err}
}

// ended counts why a stream ended, if the peer is to blame and was not counted.
func (m *metrics) ended(err error) error {
	if _, counted := errors.AsType[*blamed](err); counted {
		return err
	}
	switch {
	case errors.Is(err, wire.ErrPeer):
		return m.blame("frame", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return m.blame("timeout", err)
	}
	return err
}

// caughtUp notes the rate of a fetch that was long enough to have one.
func (m *metrics) caughtUp(n int, took time.Duration) {
	if n >= 1000 && took > 0 {
		m.fetchRate.Set(float64(n) / took.Seconds())
	}
}

// Blame counts what a peer sent and this host refused.
func (r *Replicator) Blame(reason string) { r.m.peerErrors.WithLabelValues(reason).Inc() }
