package redis

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	up     prometheus.Gauge
	failed prometheus.Counter
	took   *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		up:     prometheus.NewGauge(prometheus.GaugeOpts{Name: "skein_redis_up", Help: "1 while the Redis of outside workers serves."}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{Name: "skein_redis_failures_total", Help: "Scripts that Redis did not answer."}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "skein_redis_script_seconds", Help: "How long scripts took, from the question to the answer.",
			Buckets: []float64{.0001, .0003, .001, .003, .01, .03, .1, .3, 1, 3},
		}, []string{"script"}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.up, m.failed, m.took} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
