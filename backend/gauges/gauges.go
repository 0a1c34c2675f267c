package gauges

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
)

// Options are what a Collector reads. All must be set.
type Options struct {
	Version string // of this program
	View    func() *coord.View
	// Now is the clock of the view, Wall the time of day.
	Now  func() time.Duration
	Wall func() time.Time
}

// Collector is a prometheus.Collector.
type Collector struct {
	o                                     Options
	build, role, mode, expiry, skew, cert *prometheus.Desc
}

// New returns a Collector that is registered nowhere.
func New(o Options) *Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &Collector{
		o:      o,
		build:  desc("skein_build_info", "Always 1; the version of the program and that of Go are the labels.", "version", "goversion"),
		role:   desc("skein_role", "1 for the role of this host under the lease: holder, standby or witness.", "role"),
		mode:   desc("skein_lease_mode", "1 for how the lease is granted: single, available or quorum.", "mode"),
		expiry: desc("skein_lease_expiry_timestamp_seconds", "When the lease that this host knows of ends unless it is renewed, seconds since the epoch; 0: it knows of none."),
		skew:   desc("skein_clock_offset_seconds", "How far the clock of a peer is ahead of this host's, 0 up to one second, which is how messages are rounded. Only peers that were heard lately.", "peer"),
		cert:   desc("skein_member_cert_expiry_timestamp_seconds", "When this host's certificate ends, seconds since the epoch. Absent where it never does."),
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.build, c.role, c.mode, c.expiry, c.skew, c.cert} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	set := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	v := c.o.View()
	set(c.build, 1, c.o.Version, runtime.Version())
	for _, r := range []cluster.Role{cluster.RoleHolder, cluster.RoleStandby, cluster.RoleWitness} {
		set(c.role, oneIf(v.Lease.Role == r), string(r))
	}
	for _, m := range []cluster.Mode{cluster.ModeSingle, cluster.ModeAvailable, cluster.ModeQuorum} {
		set(c.mode, oneIf(v.Lease.Config.Mode == m), string(m))
	}
	var ends float64
	if v.Lease.Holder != "" && v.Lease.Until != 0 { // its renewals reach this host
		ends = seconds(c.o.Wall().Add(v.Lease.Until - c.o.Now()))
	}
	set(c.expiry, ends)
	for _, m := range v.Members {
		switch {
		case m.Node != v.Self:
			if m.SkewKnown {
				set(c.skew, m.Skew.Seconds(), string(m.Node))
			}
		case m.CertExpires != 0:
			set(c.cert, float64(m.CertExpires))
		}
	}
}

func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
