package zones

import "github.com/prometheus/client_golang/prometheus"

var healthDesc = prometheus.NewDesc("skein_zone_health", "On the holder: 1 healthy, 2 busy, 3 degraded, 4 unhealthy: see docs/zones.md.", []string{"zone"}, nil)

// Describe implements prometheus.Collector.
func (z *Board) Describe(out chan<- *prometheus.Desc) { out <- healthDesc }

// Collect implements prometheus.Collector.
func (z *Board) Collect(out chan<- prometheus.Metric) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for name, s := range z.state {
		out <- prometheus.MustNewConstMetric(healthDesc, prometheus.GaugeValue, float64(s.Health), name)
	}
}
