package eventlog

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
)

// lag tells, when it is asked, how far the other voters are behind this host's
// own chain. There are as many series as voters.
type lag struct {
	l             *Log
	events, bytes *prometheus.Desc
}

func newLag(l *Log) *lag {
	return &lag{
		l: l,
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
	for peer, acked := range c.l.acknowledged() {
		events, bytes := c.l.since(acked)
		ch <- prometheus.MustNewConstMetric(c.events, prometheus.GaugeValue, float64(events), string(peer))
		ch <- prometheus.MustNewConstMetric(c.bytes, prometheus.GaugeValue, float64(bytes), string(peer))
	}
}

// acknowledged says up to where each other voter holds the own chain.
func (l *Log) acknowledged() map[cluster.NodeID]uint64 {
	s := &l.rep.stab
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[cluster.NodeID]uint64, len(s.voters))
	for n, v := range s.voters {
		out[n] = v.acked
	}
	return out
}

// since says how many own events there are after seq, and how long they are:
// nearly, for the index of a segment has one entry in 64 KiB.
func (l *Log) since(seq uint64) (events uint64, bytes int64) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	head := l.own.head.Seq
	if seq >= head {
		return 0, 0
	}
	for i, s := range l.own.segs {
		last := head
		if i+1 < len(l.own.segs) {
			last = l.own.segs[i+1].first - 1
		}
		switch {
		case last <= seq || len(s.index) == 0:
		case s.first > seq:
			bytes += s.size - s.index[0].off
		default:
			from := s.seek(seq + 1)
			bytes += int64(float64(s.size-from.off) * float64(last-seq) / float64(last-from.seq+1))
		}
	}
	return head - seq, bytes
}

// arrived notes how long events of other hosts, which are folded now, were on
// their way: the last one of each chain. What is older than this process is
// history that it catches up with.
func (l *Log) arrived(events []cluster.Event) {
	own := l.Source()
	for i, e := range events {
		if e.Source == own || i+1 < len(events) && events[i+1].Source == e.Source {
			continue
		}
		if at := e.HLC.Time(); !at.Before(l.opened) {
			l.m.propagation.Observe(max(0, l.o.Wall().Sub(at)).Seconds())
		}
	}
}

// caughtUp notes the rate of a fetch that was long enough to have one.
func (l *Log) caughtUp(n int, took time.Duration) {
	if n >= 1000 && took > 0 {
		l.m.fetchRate.Set(float64(n) / took.Seconds())
	}
}
