package eventlog

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	records    prometheus.Counter
	size       prometheus.Gauge
	fsync      prometheus.Histogram
	groups     prometheus.Counter
	queued     prometheus.GaugeFunc
	rejected   *prometheus.CounterVec
	truncated  prometheus.Counter
	poisoned   prometheus.Gauge
	recovery   prometheus.Gauge
	rebuilds   prometheus.Counter
	refused    prometheus.Gauge
	sources    prometheus.Gauge
	received   prometheus.Counter
	acks       *prometheus.CounterVec
	pulls      *prometheus.CounterVec
	peerErrors *prometheus.CounterVec
	forks      prometheus.Counter
	stable     prometheus.Gauge
	diskState  *prometheus.GaugeVec
	diskFree   prometheus.Gauge
	reopened   prometheus.Counter
	durable    prometheus.Gauge
	tailing    prometheus.Gauge

	groupRecords prometheus.Histogram
	appendTime   prometheus.Histogram
	ackTime      prometheus.Histogram
	propagation  prometheus.Histogram
	behind       prometheus.Gauge
	fetchRate    prometheus.Gauge
	verified     prometheus.Counter
	verifyRate   prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, in *intake) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "skein", Subsystem: "eventlog", Name: name, Help: help})
	}
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
	state := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "skein", Subsystem: "eventlog", Name: "disk_state", Help: "1 for what the room for the log is: ok, low, full or out.",
	}, []string{"state"})
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "skein", Subsystem: "eventlog", Name: name, Help: help, Buckets: buckets})
	}
	m := &metrics{
		diskState: state,
		diskFree:  gauge("disk_free_bytes", "Bytes that the file system of the log has left, -1 if it does not say."),
		reopened:  counter("reopened_total", "Recoveries of the running log after an i/o error."),
		records:   counter("records_total", "Events in the log: recovered, appended and received."),
		size:      gauge("size_bytes", "Bytes of all segments, without preallocated space."),
		fsync:     histogram("fsync_duration_seconds", "Time of one sync of one segment.", prometheus.ExponentialBuckets(0.0001, 2, 14)),
		groups:    counter("commit_groups_total", "Commit groups made durable."),
		queued: prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Namespace: "skein", Subsystem: "eventlog", Name: "intake_bytes", Help: "Bytes that wait for the writer or are being written.",
		}, func() float64 { return float64(in.bytes()) }),
		rejected:   vec("rejected_total", "Appends that were refused.", "reason", "full", "disk_full", "closed", "too_large", "fenced", "draft", "cancelled"),
		truncated:  counter("torn_tails_total", "Interrupted writes cut off when the log was opened."),
		poisoned:   gauge("poisoned", "1 after a failed write or sync."),
		recovery:   gauge("recovery_duration_seconds", "Time that opening the log took."),
		rebuilds:   counter("state_rebuilds_total", "Folds of the whole log because a late term start voided events."),
		refused:    gauge("state_refused_events", "Events without effect since they would change what the snapshot holds that the state goes on from."),
		sources:    gauge("sources", "Chains in the log."),
		received:   counter("received_records_total", "Events stored for other sources."),
		acks:       vec("push_acks_total", "Answers of voters to pushed events.", "result", "stored", "refused"),
		pulls:      vec("pulls_total", "Pulls from other hosts.", "result", "equal", "fetched", "error"),
		peerErrors: vec("peer_errors_total", "Refused data of other hosts.", "reason", "frame", "chain", "signature", "clock", "unknown_source", "equivocation", "proof", "snapshot", "quota", "disk_full", "timeout"),
		forks:      counter("equivocations_total", "Sources proven to have signed two histories."),
		stable:     gauge("stable_seq", "Last stable event of the own chain."),
		durable:    gauge("durable_seq", "Last durable event of the own chain."),
		tailing:    gauge("following", "1 while another host tells this one of new events at once."),

		groupRecords: histogram("commit_group_records", "Events in one commit group of one chain.", prometheus.ExponentialBuckets(1, 2, 11)),
		appendTime:   histogram("append_duration_seconds", "Time from an append's call until it was durable here. Of those that are queued together only the first counts.", prometheus.ExponentialBuckets(0.0001, 2, 17)),
		ackTime: histogram("push_ack_duration_seconds", "Time from the push of own events to a voter until it had them on its disk.",
			prometheus.ExponentialBuckets(0.0001, 2, 17)),
		propagation: histogram("propagation_seconds",
			"Time from an event's stamp on another host until it was stored and folded here: as good as the two clocks agree, and to the millisecond. "+
				"Counts the last event of each group that was stamped after this log was opened.",
			prometheus.ExponentialBuckets(0.001, 2, 17)),
		behind:     gauge("behind_events", "Events that the host asked last has and that are not here yet."),
		fetchRate:  gauge("catch_up_records_per_second", "Events stored per second in the last fetch of at least 1000 from another host."),
		verified:   counter("verified_records_total", "Events that verifications of this log have read."),
		verifyRate: gauge("verify_records_per_second", "Events per second of the last whole verification of this log."),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.records, m.size, m.fsync, m.groups, m.queued, m.rejected, m.truncated, m.poisoned, m.recovery, m.rebuilds, m.refused,
		m.sources, m.received, m.acks, m.pulls, m.peerErrors, m.forks, m.stable, m.durable, m.tailing,
		m.diskState, m.diskFree, m.reopened,
		m.groupRecords, m.appendTime, m.ackTime, m.propagation, m.behind, m.fetchRate, m.verified, m.verifyRate,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register event log metrics: %w", err)
		}
	}
	return m, nil
}
