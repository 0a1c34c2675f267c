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
	after map[job.ID]time.Time // those of steps, since what they waited for had ended

	assign  prometheus.Histogram
	queued  prometheus.Histogram
	oldest  prometheus.Gauge
	waiting *prometheus.GaugeVec
	drain   *prometheus.GaugeVec
	workers *prometheus.GaugeVec
	refused *prometheus.CounterVec
	flows   *prometheus.GaugeVec
	release prometheus.Histogram
}

// NewService returns the metrics of a service without jobs.
func NewService() *Service {
	s := &Service{
		waits: make(map[job.ID]time.Time), after: make(map[job.ID]time.Time),
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
		flows: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "skein_workflows", Help: "Open runs of workflows that this host carries out, by state: queued, running, stopping.",
		}, []string{"state"}),
		release: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "skein_workflow_release_seconds", Help: "From the logged end of a job to the handing over of the first chunk of a step that waited for it.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}),
	}
	for _, reason := range []string{"invalid", "closed", "misplaced"} {
		s.refused.WithLabelValues(reason)
	}
	return s
}

// Collectors are what is to be registered.
func (s *Service) Collectors() []prometheus.Collector {
	return []prometheus.Collector{s.assign, s.queued, s.oldest, s.waiting, s.drain, s.workers, s.refused, s.flows, s.release}
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
		if since, ok := s.after[a.Job]; ok {
			s.release.Observe(now.Sub(since).Seconds())
			delete(s.after, a.Job)
		}
	case step.Finish:
		delete(s.waits, a.Job)
		delete(s.after, a.Job)
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

// Released is called with the job of a step that was submitted because another had ended.
func (s *Service) Released(id job.ID, since time.Time) { s.after[id] = since }

// Flows is called at every tick, with how many runs are open.
func (s *Service) Flows(queued, running, stopping int) {
	s.flows.WithLabelValues("queued").Set(float64(queued))
	s.flows.WithLabelValues("running").Set(float64(running))
	s.flows.WithLabelValues("stopping").Set(float64(stopping))
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
	clear(s.after)
	s.flows.Reset()
	s.oldest.Set(0)
	s.waiting.Reset()
	s.drain.Reset()
	s.workers.Reset()
}
