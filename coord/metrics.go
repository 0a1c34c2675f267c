package coord

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/coord/path"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/lease"
)

// Reasons of refusal that this package adds to those of wire.
const (
	reasonQueue   wire.Reason = "queue"   // accepted, but the loop was too far behind
	reasonMajor   wire.Reason = "major"   // sender runs another major version of the program
	reasonProfile wire.Reason = "profile" // lease message of another timing profile
	reasonProof   wire.Reason = "proof"   // release whose proof its holder did not sign
	// reasonConfigProof: voter configuration that its issuer did not sign.
	reasonConfigProof wire.Reason = "config_proof"

	reasonStaleClaim wire.Reason = "stale_claim" // role publisher under a term that is over
	reasonDuplicate  wire.Reason = "duplicate"   // of a second process with the sender's identity
)

// metrics are the counters of one Service.
type metrics struct {
	rejected     *prometheus.CounterVec
	accepted     *prometheus.CounterVec
	sent         *prometheus.CounterVec
	unsent       *prometheus.CounterVec
	streams      *prometheus.CounterVec
	streamErrors *prometheus.CounterVec
	streamsOpen  prometheus.Gauge
	pulls        *prometheus.CounterVec
	peers        *prometheus.GaugeVec
	rtt          *prometheus.GaugeVec
	term         prometheus.Gauge
	promised     prometheus.Gauge
	holding      prometheus.Gauge
	publishing   prometheus.Gauge
	abstaining   prometheus.Gauge
	refused      *prometheus.CounterVec
	changes      *prometheus.CounterVec
	voteSave     prometheus.Histogram
	dropped      *prometheus.CounterVec
	suspends     prometheus.Counter
	clockJumps   prometheus.Counter
	equivocation prometheus.Counter
	blackholes   prometheus.Counter
	duplicates   prometheus.Counter
	introPulls   *prometheus.CounterVec
	stalls       prometheus.Counter
	stale        prometheus.Gauge
	swim         *prometheus.CounterVec
	localHealth  prometheus.Gauge

	pathChanges   *prometheus.CounterVec
	onionDials    *prometheus.CounterVec
	onionPeers    prometheus.Gauge
	onionStreams  prometheus.Gauge
	onionMessages prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
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
		rejected:     vec("skein_coord_rejected_total", "Datagrams refused, by reason.", "reason"),
		accepted:     vec("skein_coord_accepted_total", "Datagrams accepted, by type.", "type"),
		sent:         vec("skein_coord_sent_total", "Datagrams sent, by type.", "type"),
		unsent:       vec("skein_coord_unsent_total", "Datagrams not sent, by reason.", "reason"),
		streams:      vec("skein_coord_streams_total", "Streams opened, by protocol and direction.", "proto", "direction"),
		streamErrors: vec("skein_coord_stream_errors_total", "Streams refused or not opened, by reason.", "reason"),
		streamsOpen:  gauge("skein_coord_streams_open", "Streams open now."),
		pulls:        vec("skein_coord_pulls_total", "Pulls of membership records, by outcome.", "outcome"),
		peers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "skein_coord_peers", Help: "Other members, by health.",
		}, []string{"health"}),
		rtt: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "skein_coord_rtt_seconds", Help: "Smoothed round trip to a peer.",
		}, []string{"peer"}),
		term:       gauge("skein_lease_term", "Highest term this host knows of."),
		promised:   gauge("skein_lease_promised_term", "Term that this voter last promised."),
		holding:    gauge("skein_lease_holder", "1 while this host holds the lease."),
		abstaining: gauge("skein_lease_abstaining", "1 while this voter abstains because it lost its vote record."),
		refused:    vec("skein_lease_refused_total", "Lease messages that the core refused as wrong or late, by reason.", "reason"),
		publishing: gauge("skein_lease_publishing", "1 while this host has the publishing duty."),
		changes:    vec("skein_lease_changes_total", "Terms acquired and lost by this host.", "change"),
		voteSave: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "skein_lease_vote_save_seconds", Help: "Time to make a vote durable.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
		}),
		dropped:      vec("skein_coord_notices_dropped_total", "Lease actions or notices whose reader was too slow.", "kind"),
		suspends:     counter("skein_coord_suspends_total", "Times the machine was found to have slept."),
		clockJumps:   counter("skein_coord_clock_jumps_total", "Jumps of the wall clock."),
		equivocation: counter("skein_coord_equivocations_total", "Membership records that contradict another."),
		blackholes:   counter("skein_coord_blackholes_total", "Times full packets to a peer vanished while small ones did not."),
		duplicates:   counter("skein_coord_duplicates_total", "Times two processes with the identity of one host were found."),
		introPulls:   vec("skein_coord_intro_pulls_total", "Pulls of introduction points, by outcome.", "outcome"),
		stalls:       counter("skein_coord_stalls_total", "Times the loop ran later than a quarter of a lease after it should have."),
		swim:         vec("skein_coord_detector_total", "What the failure detector of a large cluster did, by kind.", "kind"),
		localHealth:  gauge("skein_coord_local_health", "How unwell this host finds itself, 0 to 8: it then waits longer for others."),
		stale:        gauge("skein_coord_stale_members", "Members that were not heard for 5 minutes."),

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
	for _, reason := range append(wire.Reasons(), reasonQueue, reasonMajor, reasonProfile, reasonProof, reasonConfigProof,
		reasonStaleClaim, reasonDuplicate) {
		m.rejected.WithLabelValues(string(reason)) // every reason is there from the start
	}
	for _, why := range lease.RefusedReasons() {
		m.refused.WithLabelValues(why)
	}
	if r == nil {
		return m, nil
	}
	var errs []error
	for _, c := range []prometheus.Collector{
		m.rejected, m.accepted, m.sent, m.unsent, m.streams, m.streamErrors, m.streamsOpen, m.pulls, m.peers, m.rtt,
		m.term, m.promised, m.holding, m.publishing, m.abstaining, m.refused, m.changes, m.voteSave, m.dropped, m.suspends, m.clockJumps, m.equivocation,
		m.blackholes, m.stale, m.swim, m.localHealth, m.duplicates, m.introPulls, m.stalls,
		m.pathChanges, m.onionDials, m.onionPeers, m.onionStreams, m.onionMessages,
	} {
		errs = append(errs, r.Register(c))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("register coord metrics: %w", err)
	}
	return m, nil
}
