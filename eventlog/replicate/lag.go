package replicate

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/eventlog/store"
)

// lag tells, when it is asked, how far the other voters are behind this host's
// own chain. There are as many series as voters.
type lag struct {
	st            *store.Store
	stab          *Stability
	events, bytes *prometheus.Desc
}

func newLag(st *store.Store, stab *Stability) *lag {
	return &lag{
		st: st, stab: stab,
		events: prometheus.NewDesc("skein_eventlog_peer_lag_events",
			"Own durable events that a voter has not acknowledged.", []string{"peer"}, nil),
		bytes: prometheus.NewDesc("skein_eventlog_peer_lag_bytes",
			"Bytes of own durable events that a voter has not acknowledged, about.", []string{"peer"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *lag) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.events
	ch <- c.bytes
}

// Collect implements prometheus.Collector.
func (c *lag) Collect(ch chan<- prometheus.Metric) {
	for peer, acked := range c.stab.acknowledged() {
		events, bytes := c.st.Since(acked)
		ch <- prometheus.MustNewConstMetric(c.events, prometheus.GaugeValue, float64(events), string(peer))
		ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(bytes), string(peer))
	}
}
