package scheduler

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/scheduler/link"
	"github.com/skein-project/skein/scheduler/meters"
	"github.com/skein-project/skein/scheduler/runs"
	"github.com/skein-project/skein/scheduler/stream"
)

// metrics are those of one Scheduler.
type metrics struct {
	jobs      *prometheus.GaugeVec
	chunks    *prometheus.CounterVec
	open      *prometheus.GaugeVec
	starved   prometheus.Gauge
	finished  *prometheus.CounterVec
	fenced    prometheus.Counter
	busy      prometheus.Counter
	links     link.Metrics
	crewDrops *prometheus.CounterVec
	notices   *prometheus.CounterVec
	unsettled prometheus.Gauge
	appendDur prometheus.Histogram
	service   *meters.Service
	runs      *runs.Metrics
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		service: meters.NewService(), runs: runs.NewMetrics(),
		jobs: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "skein_jobs", Help: "Open jobs that this host schedules, by state.",
		}, []string{"state"}),
		chunks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_chunks_total", Help: "Attempts at chunks by what this host decided: assigned, copied, accepted, failed, reclaimed, extended, denied (more time), checkpointed, settled.",
		}, []string{"state"}),
		open: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "skein_chunks_open", Help: "Chunks of open jobs that this host schedules, by state.",
		}, []string{"state"}),
		starved: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "skein_jobs_starved", Help: "Open jobs that this host schedules and no worker may run.",
		}),
		finished: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_job_runs_total", Help: "Jobs that this host ended, by result.",
		}, []string{"result"}),
		fenced: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_fenced_actions_total", Help: "Times that scheduling stopped because the lease was gone.",
		}),
		busy: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_scheduler_busy_total", Help: "Requests refused because too many waited.",
		}),
		links: link.Metrics{
			Open: prometheus.NewGauge(prometheus.GaugeOpts{
				Name: "skein_worker_streams", Help: "Open streams to workers.",
			}),
			Ends: prometheus.NewCounterVec(prometheus.CounterOpts{
				Name: "skein_worker_stream_ends_total", Help: "Ends of streams to workers, by reason.",
			}, []string{"reason"}),
			Offences: prometheus.NewCounter(prometheus.CounterOpts{
				Name: "skein_worker_offences_total", Help: "Messages of workers that no correct one sends.",
			}),
			Shed: prometheus.NewCounter(prometheus.CounterOpts{
				Name: "skein_worker_telemetry_shed_total", Help: "Status messages of workers that were dropped because too many frames waited.",
			}),
		},
		crewDrops: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_outside_drops_total", Help: "Outside workers that this host had detached as the holder, by reason.",
		}, []string{"reason"}),
		notices: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_worker_notices_total", Help: "What the scheduler noticed about workers: alarm, dispute, distrust, excluded, evicted, stray.",
		}, []string{"notice"}),
		unsettled: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "skein_results_unsettled", Help: "Results decided and not yet known to be stable.",
		}),
		appendDur: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "skein_schedule_append_duration_seconds", Help: "Time to make one batch of decisions durable.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range append(slices.Concat(m.service.Collectors(), m.runs.Collectors()),
		m.jobs, m.chunks, m.open, m.starved, m.finished, m.fenced, m.busy, m.links.Open, m.links.Ends, m.links.Offences, m.notices, m.links.Shed, m.crewDrops, m.unsettled, m.appendDur,
	) {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	for _, why := range stream.DropReasons() {
		m.crewDrops.WithLabelValues(string(why)) // what rises from nothing is seen to rise
	}
	return m, nil
}
