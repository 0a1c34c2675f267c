package status

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/status/door"
	"github.com/skein-project/skein/status/stream"
)

type metrics struct {
	requests  *prometheus.CounterVec
	followers prometheus.Gauge
	cut       *prometheus.CounterVec
	refused   prometheus.Counter
	limited   *prometheus.CounterVec
}

// limitPlaces is the limit of what one user or address has at once: streams, uploads.
const limitPlaces = "places"

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_api_requests_total", Help: "API requests by route and status class.",
		}, []string{"route", "class"}),
		followers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "skein_api_followers", Help: "Readers that follow a job, the events, or what they watch.",
		}),
		cut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_api_followers_cut_total", Help: "Followers ended by the server, by reason.",
		}, []string{"reason"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_api_connections_refused_total", Help: "Connections closed because their user or address has too many open.",
		}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_api_limited_total", Help: "Requests of users that were told to wait, by the limit that they exceeded.",
		}, []string{"limit"}),
	}
	for _, limit := range door.Paces() {
		m.limited.WithLabelValues(limit)
	}
	m.limited.WithLabelValues(limitPlaces)
	m.cut.WithLabelValues(stream.CutSlow)
	m.cut.WithLabelValues(stream.CutStop)
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.requests, m.followers, m.cut, m.refused, m.limited} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
