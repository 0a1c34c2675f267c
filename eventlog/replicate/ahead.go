package replicate

import (
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/stamps"
	"github.com/skein-project/skein/eventlog/store"
	"github.com/skein-project/skein/eventlog/wire"
)

// aheads are the chains of other hosts of which events were refused since they
// are from the future: at most one of each member, the newest.
type aheads struct {
	st   *store.Store
	wall func() time.Time

	mu sync.Mutex
	m  map[cluster.NodeID]aheadRun
}

// aheadRun is the last event of a refused run.
type aheadRun struct {
	source event.SourceID
	seq    uint64
	at     time.Time
}

func newAheads(st *store.Store, wall func() time.Time) *aheads {
	return &aheads{st: st, wall: wall, m: map[cluster.NodeID]aheadRun{}}
}

// note notes a run that is refused, and whether its chain is not known to be
// ahead yet.
func (a *aheads) note(ru *wire.Run) (found bool) {
	last := ru.Events[len(ru.Events)-1]
	a.mu.Lock()
	defer a.mu.Unlock()
	old, known := a.m[last.Source.Node]
	if known && old.source.Inc > last.Source.Inc {
		return false // that one ended
	}
	a.m[last.Source.Node] = aheadRun{source: last.Source, seq: last.Seq, at: last.HLC.Time()}
	return !known || old.source != last.Source
}

// list returns the chains that are still ahead: not those that were taken since,
// whose host goes on with another one, or of which time has caught up.
func (a *aheads) list() (out []stamps.Chain) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.m) == 0 {
		return nil
	}
	heads, wall := a.st.Heads(), a.wall()
	for node, run := range a.m {
		by, refused := stamps.Ahead(run.at, wall)
		if !refused || slices.ContainsFunc(heads, func(h event.Head) bool {
			return h.Source.Node == node && (h.Source.Inc > run.source.Inc || h.Source == run.source && h.Seq >= run.seq)
		}) {
			delete(a.m, node)
			continue
		}
		out = append(out, stamps.Chain{Source: run.source, Seq: run.seq, Ahead: by})
	}
	slices.SortFunc(out, func(x, y stamps.Chain) int { return x.Source.Compare(y.Source) })
	return out
}

// Ahead returns the chains of other hosts whose events are refused since they are
// from the future.
func (r *Replicator) Ahead() []stamps.Chain { return r.aheads.list() }

// aheadSeconds tells, when it is asked, which chains run ahead, and by how much.
type aheadSeconds struct {
	list    func() []stamps.Chain
	seconds *prometheus.Desc
}

// NewAheadSeconds returns a metric of what list returns.
func NewAheadSeconds(list func() []stamps.Chain) prometheus.Collector {
	return &aheadSeconds{list: list, seconds: prometheus.NewDesc("skein_eventlog_ahead_seconds",
		"How far the chain of a host is ahead of this host's clock, where that is too much for its events to be taken.", []string{"node"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *aheadSeconds) Describe(ch chan<- *prometheus.Desc) { ch <- c.seconds }

// Collect implements prometheus.Collector.
func (c *aheadSeconds) Collect(ch chan<- prometheus.Metric) {
	for _, a := range c.list() {
		ch <- prometheus.MustNewConstMetric(c.seconds, prometheus.GaugeValue, a.Ahead.Seconds(), string(a.Source.Node))
	}
}
