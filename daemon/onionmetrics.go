package daemon

import (
	"crypto/ecdh"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/publisher/descriptor"
)

type onionMetrics struct {
	addresses, publishing, serving, points, healthy, published prometheus.Gauge
	posts                                                      *prometheus.CounterVec
}

func newOnionMetrics(r prometheus.Registerer) (*onionMetrics, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &onionMetrics{
		addresses:  gauge("skein_onion_addresses", "Onion addresses that the cluster serves."),
		publishing: gauge("skein_onion_publishing", "Onion addresses that this host publishes."),
		serving:    gauge("skein_onion_hosts", "Hosts whose introduction points belong in the descriptors, as this host sees it."),
		points:     gauge("skein_onion_points", "Introduction points of this host that have a circuit."),
		healthy:    gauge("skein_onion_target_healthy", "1 while the target of the onion addresses takes connections."),
		published:  gauge("skein_onion_published_timestamp_seconds", "When clients last found a new descriptor by this host, seconds since the epoch."),
		posts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_onion_descriptors_total", Help: "What became of descriptors: done, failed, unmade, fenced, foreign; refused are those of hosts.",
		}, []string{"outcome"}),
	}
	m.healthy.Set(1)
	for _, c := range []prometheus.Collector{m.addresses, m.publishing, m.serving, m.points, m.healthy, m.published, m.posts} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// clientKey reads the public key of a client; one that gives no secret is
// refused.
func clientKey(raw []byte) (*ecdh.PublicKey, error) {
	k, err := ecdh.X25519().NewPublicKey(raw)
	if err != nil {
		return nil, err
	}
	return descriptor.ParseClientKey(descriptor.FormatClientKey(k))
}
