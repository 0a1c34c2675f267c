package transport

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/coord/path"
	"github.com/skein-project/skein/coord/wire"
)

// metrics are the counters of one Transport.
type metrics struct {
	rejected      *prometheus.CounterVec
	accepted      *prometheus.CounterVec
	sent          *prometheus.CounterVec
	unsent        *prometheus.CounterVec
	streams       *prometheus.CounterVec
	streamErrors  *prometheus.CounterVec
	streamsOpen   prometheus.Gauge
	pathChanges   *prometheus.CounterVec
	onionDials    *prometheus.CounterVec
	onionPeers    prometheus.Gauge
	onionStreams  prometheus.Gauge
	onionMessages prometheus.Counter
}

func newMetrics(o *Options) (*metrics, error) {
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		rejected:      vec("skein_coord_rejected_total", "Datagrams refused, by reason.", "reason"),
		accepted:      vec("skein_coord_accepted_total", "Datagrams accepted, by type.", "type"),
		sent:          vec("skein_coord_sent_total", "Datagrams sent, by type.", "type"),
		unsent:        vec("skein_coord_unsent_total", "Datagrams not sent, by reason.", "reason"),
		streams:       vec("skein_coord_streams_total", "Streams opened, by protocol and direction.", "proto", "direction"),
		streamErrors:  vec("skein_coord_stream_errors_total", "Streams refused or not opened, by reason.", "reason"),
		streamsOpen:   gauge("skein_coord_streams_open", "Streams open now."),
		pathChanges:   vec("skein_coord_path_changes_total", "Times messages to a peer took another way, by the new one.", "path"),
		onionDials:    vec("skein_coord_onion_dials_total", "Dials of peers' onion services, by outcome.", "outcome"),
		onionPeers:    gauge("skein_coord_onion_peers", "Peers that are reached over onion services."),
		onionStreams:  gauge("skein_coord_onion_streams", "Streams to peers' onion services that are open for messages."),
		onionMessages: counter("skein_coord_onion_messages_total", "Messages that came over onion services."),
	}
	for _, way := range []path.Way{path.Direct, path.Onion} {
		m.pathChanges.WithLabelValues(string(way))
	}
	for _, outcome := range []string{"ok", "error"} {
		m.onionDials.WithLabelValues(outcome)
	}
	for _, reason := range slices.Concat(wire.Reasons(), []wire.Reason{ReasonQueue, ReasonDuplicate}, o.Reasons) {
		m.rejected.WithLabelValues(string(reason)) // every reason is there from the start
	}
	if o.Registerer == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.rejected, m.accepted, m.sent, m.unsent, m.streams, m.streamErrors, m.streamsOpen,
		m.pathChanges, m.onionDials, m.onionPeers, m.onionStreams, m.onionMessages,
	} {
		errs = append(errs, o.Registerer.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register transport metrics: %w", err)
	}
	return m, nil
}
