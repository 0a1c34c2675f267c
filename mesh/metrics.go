package mesh

import (
	"github.com/prometheus/client_golang/prometheus"
)

// metrics shows the last reading; it keeps nothing of its own.
type metrics struct {
	mesh      *Mesh
	info      *prometheus.Desc
	mtu       *prometheus.Desc
	handshake *prometheus.Desc
	received  *prometheus.Desc
	sent      *prometheus.Desc
	peers     *prometheus.Desc
	attempts  *prometheus.Desc
	moves     *prometheus.Desc
	held      *prometheus.Desc
	dropped   *prometheus.Desc
}

func newMetrics(m *Mesh) *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("skein_mesh_"+name, help, labels, nil)
	}
	return &metrics{
		mesh:      m,
		info:      desc("info", "Always 1; the backend is the label.", "backend"),
		mtu:       desc("mtu_bytes", "Size of packets inside the mesh."),
		handshake: desc("last_handshake_timestamp_seconds", "Time of the last WireGuard handshake, 0 for never.", "peer"),
		received:  desc("receive_bytes_total", "Bytes received from the peer on the underlay.", "peer"),
		sent:      desc("transmit_bytes_total", "Bytes sent to the peer on the underlay.", "peer"),
		peers:     desc("peers", "Peers of the device, by whether they answer.", "state"),
		attempts:  desc("handshake_attempts_total", "Handshakes started to find peers out of reach."),
		moves:     desc("endpoint_changes_total", "Endpoint candidates tried in turn."),
		held:      desc("held_packets_total", "Packets that waited for a session."),
		dropped:   desc("held_dropped_total", "Packets dropped while they waited for a session."),
	}
}

// Describe implements prometheus.Collector.
func (c *metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.info, c.mtu, c.handshake, c.received, c.sent, c.peers, c.attempts, c.moves, c.held, c.dropped,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *metrics) Collect(ch chan<- prometheus.Metric) {
	s := c.mesh.snap.Load()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(c.info, 1, c.mesh.Backend())
	gauge(c.mtu, float64(s.mtu))
	var up, down float64
	for _, p := range s.peers {
		var at float64
		if !p.LastHandshake.IsZero() {
			at = float64(p.LastHandshake.UnixMilli()) / 1000
		}
		label := string(p.Node)
		if label == "" {
			label = p.Key.String()
		}
		gauge(c.handshake, at, label)
		counter(c.received, p.Rx, label)
		counter(c.sent, p.Tx, label)
		if p.Reachable {
			up++
		} else {
			down++
		}
	}
	gauge(c.peers, up, "reachable")
	gauge(c.peers, down, "unreachable")
	counter(c.attempts, s.tally.attempts)
	counter(c.moves, s.tally.moves)
	counter(c.held, s.counters.Held)
	counter(c.dropped, s.counters.Dropped)
}
