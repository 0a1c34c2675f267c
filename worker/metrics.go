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
	}
	return m, register(reg, m.chunks, m.seconds, m.running, m.queued, m.kept, m.keptBytes, m.dropped, m.refused,
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
