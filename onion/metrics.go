package onion

import (
	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	addresses, publishing, serving, failing, points, healthy, published prometheus.Gauge
	posts, cut                                                          *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &metrics{
		addresses:  gauge("skein_onion_addresses", "Onion addresses that the cluster serves."),
		publishing: gauge("skein_onion_publishing", "Onion addresses that this host publishes."),
		serving:    gauge("skein_onion_hosts", "Hosts whose introduction points belong in the descriptors, as this host sees it."),
		failing:    gauge("skein_onion_hosts_failing", "Hosts of the onion addresses all of whose targets are unhealthy, as this host sees it."),
		points:     gauge("skein_onion_points", "Introduction points of this host that have a circuit."),
		healthy:    gauge("skein_onion_target_healthy", "1 while at least one target of the onion addresses on this host is healthy."),
		published:  gauge("skein_onion_published_timestamp_seconds", "When clients last found a new descriptor by this host, seconds since the epoch."),
		posts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_onion_descriptors_total", Help: "What became of descriptors: done, failed, unmade, fenced, foreign; refused are those of hosts.",
		}, []string{"outcome"}),
		cut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_onion_cut_total", Help: "Clients of the onion addresses that were cut off: circuit (it has onion.circuit_connections open), body (slower than onion.body_rate).",
		}, []string{"why"}),
	}
	m.healthy.Set(1)
	for _, c := range []prometheus.Collector{m.addresses, m.publishing, m.serving, m.failing, m.points, m.healthy, m.published, m.posts, m.cut} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// boolean is the value of a gauge.
func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
