package worker

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics of one Worker.
type metrics struct {
	chunks      *prometheus.CounterVec // by outcome
	seconds     prometheus.Histogram
	running     prometheus.Gauge
	queued      prometheus.Gauge
	kept        prometheus.Gauge
	keptBytes   prometheus.Gauge
	dropped     prometheus.Counter
	refused     *prometheus.CounterVec // by reason
	streams     prometheus.Counter
	frameErrors prometheus.Counter
	fenced      prometheus.Counter
	journal     prometheus.Counter
	draining    prometheus.Gauge
	queueAge    prometheus.Gauge

	firstProgress prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		chunks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_worker_chunks_total", Help: "Attempts that ended on this host, by outcome.",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "skein_worker_chunk_seconds", Help: "Duration of attempts that gave a result.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2.5, 12),
		}),
		running:   gauge("skein_worker_running", "Attempts running now."),
		queued:    gauge("skein_worker_queued", "Chunks waiting for a slot."),
		kept:      gauge("skein_worker_kept_results", "Results not yet accepted."),
		keptBytes: gauge("skein_worker_kept_bytes", "Size of the results not yet accepted."),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_worker_dropped_results_total", Help: "Results given up because the outbox was full.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_worker_refused_total", Help: "Streams and frames of a holder refused, by reason.",
		}, []string{"reason"}),
		streams: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_worker_streams_total", Help: "Streams of a holder served.",
		}),
		frameErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_worker_frame_errors_total", Help: "Invalid frames received from a holder.",
		}),
		fenced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_worker_fenced_total", Help: "Times that all work was stopped because no holder was heard.",
		}),
		journal: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_worker_journal_errors_total", Help: "Results that could not be written to the journal of the outbox.",
		}),
		draining: gauge("skein_worker_draining", "1 while an operator lets this host begin no chunk."),
		queueAge: gauge("skein_worker_queue_seconds", "How long the first chunk in the queue waits for a slot."),
		firstProgress: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "skein_worker_first_progress_seconds", Help: "Time from an attempt's begin to its first report of progress.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 10),
		}),
	}
	return m, register(reg, m.fenced, m.journal, m.draining, m.queueAge, m.firstProgress, m.chunks, m.seconds, m.running, m.queued, m.kept, m.keptBytes, m.dropped, m.refused,
		m.streams, m.frameErrors)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func register(reg prometheus.Registerer, all ...prometheus.Collector) error {
	if reg == nil {
		return nil
	}
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return fmt.Errorf("register worker metrics: %w", err)
		}
	}
	return nil
}
