package forward

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	streams prometheus.Gauge
	refused prometheus.Counter
	cut     *prometheus.CounterVec
}

// Reasons for ending a stream early.
const (
	cutSlow     = "slow"     // the asker does not read
	cutSilent   = "silent"   // nothing comes from the asker
	cutProtocol = "protocol" // what comes makes no sense
)

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "skein_forward_streams", Help: "Streams of frames that are sent to other hosts.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_forward_streams_refused_total", Help: "Streams of frames refused because too many are open.",
		}),
		cut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_forward_streams_cut_total", Help: "Streams of frames ended because of the host that asked, by reason.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{cutSlow, cutSilent, cutProtocol} {
		m.cut.WithLabelValues(reason)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.streams, m.refused, m.cut} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
