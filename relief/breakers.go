package relief

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/internal/breaker"
)

// breakers stop this host from asking others for a while that do not answer.
type breakers struct {
	set     *breaker.Set
	open    *prometheus.GaugeVec
	opens   *prometheus.CounterVec
	refused *prometheus.CounterVec
}

func (r *Relief) newBreakers() error {
	b := &r.breakers
	b.open = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "skein_breakers_open", Help: "Other hosts that are not asked, or only tried, because they did not answer lately, by kind of stream: forward, blob, watch, log.",
	}, []string{"kind"})
	b.opens = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "skein_breaker_opens_total", Help: "Times that another host was no longer asked because it did not answer, by kind of stream.",
	}, []string{"kind"})
	b.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "skein_breaker_refused_total", Help: "Streams that were not opened because the other host did not answer lately, by kind of stream.",
	}, []string{"kind"})
	for _, kind := range breaker.Kinds() {
		b.open.WithLabelValues(kind)
		b.opens.WithLabelValues(kind)
		b.refused.WithLabelValues(kind)
	}
	b.set = breaker.NewSet(breaker.Options{Now: r.o.Now, Life: r.life, Jitter: rand.Float64, Local: local, Changed: r.broke})
	if r.o.Registerer == nil {
		return nil
	}
	return errors.Join(r.o.Registerer.Register(b.open), r.o.Registerer.Register(b.opens), r.o.Registerer.Register(b.refused))
}

// local reports that a dial failed for a reason that is this host's.
func local(err error) bool {
	return slices.ContainsFunc([]error{transport.ErrNotMember, transport.ErrBusy, transport.ErrStopped, transport.ErrBulk}, func(e error) bool { return errors.Is(err, e) })
}

// life changes when a host starts anew, and when it is alive again or is not any more.
func (r *Relief) life(peer string) uint64 {
	m, _ := r.o.Coord().View().Member(cluster.NodeID(peer))
	life := m.Epoch << 1
	if m.Health == cluster.Alive {
		life++
	}
	return life
}

// broke tells of a breaker that changed.
func (r *Relief) broke(k breaker.Key, s breaker.State) {
	count := r.breakers.set.Count()
	for _, kind := range breaker.Kinds() {
		r.breakers.open.WithLabelValues(kind).Set(float64(count[kind]))
	}
	switch s {
	case breaker.Open:
		r.breakers.opens.WithLabelValues(k.Kind).Inc()
		r.log.Warn().Str("peer", k.Peer).Str("kind", k.Kind).Msg("a host that does not answer is not asked for a while")
	case breaker.Closed:
		r.log.Info().Str("peer", k.Peer).Str("kind", k.Kind).Msg("a host answers again")
	}
}

// Dialer opens streams of one kind by dial, but not to hosts that did not answer lately.
func (r *Relief) Dialer(
	kind string, dial func(context.Context, cluster.NodeID) (net.Conn, error),
) func(context.Context, cluster.NodeID) (net.Conn, error) {
	return func(ctx context.Context, to cluster.NodeID) (net.Conn, error) {
		c, err := r.breakers.set.Dial(ctx, string(to), kind, func() (net.Conn, error) { return dial(ctx, to) })
		if open, ok := errors.AsType[*breaker.OpenError](err); ok {
			r.breakers.refused.WithLabelValues(open.Kind).Inc()
		}
		return c, err
	}
}
