package health

import (
	"fmt"
	"iter"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/swim"
	"github.com/skein-project/skein/lease"
)

// Options are what a Monitor is made of. All but Registerer must be set.
type Options struct {
	Self   cluster.NodeID
	Boot   uint64       // of this start, from 1
	Seed   uint64       // of random choices
	Timing lease.Timing // of the profile: Heartbeat, Suspect and Grace count here
	Now    func() time.Duration

	// Others yields the other members, each with whether a heartbeat of it came
	// since this host started. Lease is the lease as this host sees it.
	Others iter.Seq2[cluster.NodeID, bool]
	Lease  func() lease.Status

	// Send sends a message of swim. Changed is called with each change of a host's
	// health, Informed with what others say of whether a host stands for the lease,
	// Answered with the answer to a probe that was sent at that local time.
	Send     func(swim.Send)
	Changed  func(member.Transition)
	Informed func(node cluster.NodeID, eligible bool)
	Answered func(node cluster.NodeID, sent, trip time.Duration)

	Logger     zerolog.Logger
	Registerer prometheus.Registerer // optional
}

type metrics struct {
	swim  *prometheus.CounterVec
	local prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		swim: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_coord_detector_total", Help: "What the failure detector of a large cluster did, by kind.",
		}, []string{"kind"}),
		local: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "skein_coord_local_health", Help: "How unwell this host finds itself, 0 to 8: it then waits longer for others.",
		}),
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.swim, m.local} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of health: %w", err)
		}
	}
	return m, nil
}
