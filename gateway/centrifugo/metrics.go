package centrifugo

import "github.com/prometheus/client_golang/prometheus"

// What became of a push.
const (
	delivered = "delivered"
	refused   = "refused" // by Centrifugo
	late      = "late"    // Centrifugo did not take it in time
	full      = "full"    // too many waited
)

// What came of a question of Centrifugo's.
const (
	answered     = "answered"
	failed       = "failed"
	ended        = "ended" // the connection is to be ended
	unauthorized = "unauthorized"
	malformed    = "malformed"
	busy         = "busy"
)

type metrics struct {
	up          prometheus.Gauge
	connections prometheus.Gauge
	pushes      *prometheus.CounterVec
	took        prometheus.Histogram
	asked       *prometheus.CounterVec
	ended       prometheus.Counter
	ahead       prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer, waiting func() int) (*metrics, error) {
	m := &metrics{
		up:          prometheus.NewGauge(prometheus.GaugeOpts{Name: "skein_centrifugo_up", Help: "1 while the Centrifugo that keeps the connections of outside workers answers this gateway."}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: "skein_centrifugo_connections", Help: "Connections that Centrifugo keeps, on all of its nodes, as this gateway last heard."}),
		pushes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_centrifugo_pushes_total", Help: "What outside workers were to be told by Centrifugo, by outcome: delivered to it, refused by it, late because it did not answer, full because too much waited.",
		}, []string{"outcome"}),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "skein_centrifugo_push_seconds", Help: "Time until Centrifugo had taken what a worker is told.",
			Buckets: []float64{.0003, .001, .003, .01, .03, .1, .3, 1, 3, 10},
		}),
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_centrifugo_asked_total", Help: "What Centrifugo asked this gateway on behalf of clients, by proxy and outcome; ended: the client was put out.",
		}, []string{"proxy", "outcome"}),
		ended: prometheus.NewCounter(prometheus.CounterOpts{Name: "skein_centrifugo_disconnects_total", Help: "Workers that Centrifugo was told to disconnect."}),
		ahead: prometheus.NewGauge(prometheus.GaugeOpts{Name: "skein_centrifugo_clock_offset_seconds", Help: "How far Centrifugo's clock is ahead of this gateway's; its API says full seconds."}),
	}
	for _, o := range []string{delivered, refused, late, full} {
		m.pushes.WithLabelValues(o)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.up, m.connections, m.pushes, m.took, m.asked, m.ended, m.ahead,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "skein_centrifugo_waiting", Help: "What waits at this gateway until Centrifugo takes it."}, func() float64 { return float64(waiting()) }),
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
