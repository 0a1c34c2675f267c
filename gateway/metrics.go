package gateway

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	requests *prometheus.CounterVec
	refused  prometheus.Counter
	limited  *prometheus.CounterVec
	failed   prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, g *Gateway) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_gateway_requests_total", Help: "Requests of outside workers and their owners, by route and status class.",
		}, []string{"route", "class"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_gateway_connections_refused_total", Help: "Connections to the gateway closed because their address, or all together, have too many open.",
		}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_gateway_limited_total", Help: "Requests to the gateway that were told to wait, by the limit that they exceeded.",
		}, []string{"limit"}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_gateway_auth_failures_total", Help: "Requests to the gateway whose proof, token or claim code was refused.",
		}),
	}
	for _, l := range limits {
		m.limited.WithLabelValues(l.name)
	}
	open := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "skein_gateway_claims", Help: "Claim codes that were handed out by this gateway and not used.",
	}, func() float64 { return float64(g.claims.len()) })
	for _, c := range []prometheus.Collector{m.requests, m.refused, m.limited, m.failed, open} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
