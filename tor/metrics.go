package tor

import "github.com/prometheus/client_golang/prometheus"

// metrics are the counters of one Tor.
type metrics struct {
	ready       prometheus.Gauge
	bootstrap   prometheus.Gauge
	restarts    prometheus.Counter
	reconnects  prometheus.Counter
	dropped     prometheus.Counter
	wrongMaster prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		ready: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "skein_tor_ready", Help: "1 when tor is bootstrapped.",
		}),
		bootstrap: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "skein_tor_bootstrap_percent", Help: "How far tor's bootstrap is.",
		}),
		restarts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_tor_restarts_total", Help: "Times that the own tor was started again.",
		}),
		reconnects: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_tor_reconnects_total", Help: "Lost connections to the control port of a tor that went on.",
		}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_tor_events_dropped_total", Help: "Events of tor that a full queue lost.",
		}),
		wrongMaster: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_tor_wrong_master_total", Help: "Introductions that tor could not read: the instance names another master address.",
		}),
	}
	for _, c := range []prometheus.Collector{m.ready, m.bootstrap, m.restarts, m.reconnects, m.dropped, m.wrongMaster} {
		if err := r.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
