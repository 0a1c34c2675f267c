package disk

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	state *prometheus.GaugeVec
	free  prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	opts := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: "skein", Subsystem: "eventlog", Name: name, Help: help}
	}
	m := &metrics{
		state: prometheus.NewGaugeVec(opts("disk_state", "1 for the current state of the disk: ok, low, full or out."), []string{"state"}),
		free:  prometheus.NewGauge(opts("disk_free_bytes", "Bytes that the file system of the log has left, -1 if it does not say.")),
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.state, m.free} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the disk: %w", err)
		}
	}
	return m, nil
}
