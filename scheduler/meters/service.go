package meters

import (
	"cmp"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/scheduler/plan"
	"github.com/skein-project/skein/scheduler/plan/step"
	"github.com/skein-project/skein/scheduler/plan/vital"
)

// Service measures one scheduler. It belongs to one goroutine.
type Service struct {
	waits map[job.ID]time.Time // jobs of which nothing was assigned yet, since when

	assign  prometheus.Histogram
	queued  prometheus.Histogram
	oldest  prometheus.Gauge
	waiting *prometheus.GaugeVec
	drain   *prometheus.GaugeVec
	workers *prometheus.GaugeVec
	refused *prometheus.CounterVec
}

// NewService returns the metrics of a service without jobs.
func NewService() *Service {
	s := &Service{
		waits: make(map[job.ID]time.Time),
		assign: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "skein_assign_duration_seconds", Help: "From what made chunks assignable to the handing over to the worker's stream, the assignment being durable.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		queued: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "skein_job_queue_duration_seconds", Help: "From a job's submission to its first assignment.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 12),
		}),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "skein_job_queue_oldest_seconds", Help: "Age of the oldest open job of which nothing was assigned yet; 0: there is none.",
		}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "skein_jobs_waiting", Help: "Open jobs of which nothing runs though something is to be done, by what keeps them from most workers.",
		}, []string{"reason"}),
		drain: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "skein_workers_drain_seconds", Help: "Time until workers are done with what they have: the mean and the highest.",
		}, []string{"of"}),
		workers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "skein_workers", Help: "Workers by what their signals mean for them: route, investigate, drain, evict.",
		}, []string{"verdict"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_results_refused_total", Help: "Results that do not count: invalid, closed (the chunk has one, or its job ended), misplaced (no such chunk).",
		}, []string{"reason"}),
	}
	for _, reason := range []string{"invalid", "closed", "misplaced"} {
		s.refused.WithLabelValues(reason)
	}
	return s
}

// Collectors are what is to be registered.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.assign, s.queued, s.oldest, s.waiting, s.drain, s.workers, s.refused}
}

// Begin is called with each event that the plan gets.
func (s *Service) Begin(e step.Event, now time.Time) {
	if j, ok := e.(step.JobAdded); ok {
		s.waits[j.Job] = now.Add(-j.Age)
	}
}

// Acted is called with each action that is durable; began is when the first
// event of its batch was taken.
func (s *Service) Acted(action step.Action, began, now time.Time) {
	switch a := action.(type) {
	case step.Assign:
		s.assign.Observe(now.Sub(began).Seconds())
		if since, ok := s.waits[a.Job]; ok {
			s.queued.Observe(now.Sub(since).Seconds())
			delete(s.waits, a.Job)
		}
	case step.Finish:
		delete(s.waits, a.Job)
	case step.Fail:
		if strings.HasPrefix(a.Reason, job.ErrResult.Error()) {
			s.refused.WithLabelValues("invalid").Inc()
		}
	case step.Settled:
		s.refused.WithLabelValues("closed").Inc()
	case step.Offence:
		s.refused.WithLabelValues("misplaced").Inc()
	}
}

// Look is called at every tick.
func (s *Service) Look(views []plan.WorkerView, now time.Time) {
	oldest := time.Duration(0)
	for _, since := range s.waits {
		oldest = max(oldest, now.Sub(since))
	}
	s.oldest.Set(oldest.Seconds())
	var sum, most time.Duration
	verdicts := map[vital.Verdict]int{vital.VerdictRoute: 0, vital.VerdictInvestigate: 0, vital.VerdictDrain: 0, vital.VerdictEvict: 0}
	for _, w := range views {
		sum, most = sum+w.Drain, max(most, w.Drain)
		verdicts[w.Verdict]++
	}
	s.drain.WithLabelValues("mean").Set(sum.Seconds() / float64(max(1, len(views))))
	s.drain.WithLabelValues("highest").Set(most.Seconds())
	for v, n := range verdicts {
		s.workers.WithLabelValues(string(v)).Set(float64(n))
	}
}

// Waiting is called with the jobs that wait.
func (s *Service) Waiting(list []plan.Waiting) {
	s.waiting.Reset()
	for _, w := range list {
		s.waiting.WithLabelValues(cmp.Or(string(w.Why.Main()), "none")).Inc()
	}
}

// End forgets what was of a term.
func (s *Service) End() {
	clear(s.waits)
	s.oldest.Set(0)
	s.waiting.Reset()
	s.drain.Reset()
	s.workers.Reset()
}
