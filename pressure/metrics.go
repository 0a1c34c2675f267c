package pressure

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

type gauges struct {
	pressure *prometheus.GaugeVec
	loops    *prometheus.GaugeVec
	level    prometheus.Gauge
	score    prometheus.Gauge
	refused  *prometheus.CounterVec
}

func newGauges(reg prometheus.Registerer) (*gauges, error) {
	g := &gauges{
		pressure: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "skein_pressure",
			Help: "How loaded this host is: for cpu, memory and io the share of the last 10 s in which something waited for it, memory_left and disk_left " +
				"as shares, and in seconds the least delay of work and control in half a second, and the p99 of goroutines until they run and of syncs " +
				"of the event log. What is not known is -1.",
		}, []string{"what"}),
		loops: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "skein_loop_delay_seconds", Help: "How long a loop of this daemon lets a ping wait at least, in half a second.",
		}, []string{"loop"}),
		level: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "skein_overload_level", Help: "0 normal, 1 elevated, 2 high, 3 severe, 4 critical: see docs/overload.md.",
		}),
		score: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "skein_overload_score", Help: "What the level comes from, from 0 to 8: 2 is where overload begins, 2 more each time that it doubles.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_pressure_refused_total", Help: "Times the kernel said of a resource what cannot be.",
		}, []string{"what"}),
	}
	for _, r := range resources {
		g.refused.WithLabelValues(r)
	}
	if reg == nil {
		return g, nil
	}
	for _, c := range []prometheus.Collector{g.pressure, g.loops, g.level, g.score, g.refused} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("pressure: %w", err)
		}
	}
	return g, nil
}

func (g *gauges) show(v View) {
	ratio := func(percent float64) float64 {
		if percent < 0 {
			return -1
		}
		return percent / 100
	}
	for what, value := range map[string]float64{
		"cpu": ratio(v.CPU), "memory": ratio(v.Memory), "io": ratio(v.IO), "memory_left": ratio(v.MemoryLeft), "disk_left": ratio(v.DiskLeft),
		"work_delay": v.Work.Seconds(), "control_delay": v.Control.Seconds(), "goroutine_delay": v.Goroutines.Seconds(), "sync": v.Syncs.Seconds(),
	} {
		g.pressure.WithLabelValues(what).Set(value)
	}
	g.level.Set(float64(v.Level))
	g.score.Set(v.Score)
}
