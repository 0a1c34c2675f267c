package gateway

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/gateway/desk"
	"github.com/skein-project/skein/gateway/guard"
	"github.com/skein-project/skein/gateway/rpc"
)

type metrics struct {
	requests *prometheus.CounterVec
	refused  prometheus.Counter
	limited  *prometheus.CounterVec
	ended    *prometheus.CounterVec
	failed   prometheus.Counter
	calls    map[string]called
	results  *prometheus.CounterVec
	pushed   prometheus.Histogram
}

// called counts the calls of one method.
type called struct{ answered, refused prometheus.Counter }

func newMetrics(reg prometheus.Registerer, g *Gateway) (*metrics, error) {
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "skein_gateway_calls_total", Help: "Methods that outside workers asked, by HTTP and over connections, by outcome; assigned is asked by who missed something.",
	}, []string{"method", "outcome"})
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_gateway_requests_total", Help: "Requests of outside workers and their owners, by route and status class.",
		}, []string{"route", "class"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_gateway_connections_refused_total", Help: "Connections to the gateway closed because their address, or all together, have too many open.",
		}),
		limited: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_gateway_limited_total", Help: "Requests to the gateway that were told to wait, by the limit that they exceeded.",
		}, []string{"limit"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_gateway_disconnects_total", Help: "Connections of outside workers that the gateway ended or did not take, by code: 4101 it stops, 4129 too much is asked, 4501 revoked, 4502 replaced, 4503 too old.",
		}, []string{"code"}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "skein_gateway_auth_failures_total", Help: "Requests to the gateway whose proof, token or claim code was refused.",
		}),
		calls: map[string]called{},
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_gateway_results_total", Help: "Results that outside workers sent, by what the gateway said of them.",
		}, []string{"verdict"}),
		pushed: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "skein_gateway_push_seconds", Help: "Time until a worker's connection had what the holder told the worker.",
			Buckets: prometheus.ExponentialBuckets(1e-5, 4, 10),
		}),
	}
	for _, method := range rpc.Methods() {
		m.calls[method] = called{calls.WithLabelValues(method, "answered"), calls.WithLabelValues(method, "refused")}
	}
	for _, v := range []string{string(desk.Taken), string(desk.Duplicate), string(desk.Unknown), api.VerdictInvalid} {
		m.results.WithLabelValues(v)
	}
	for _, code := range api.DisconnectCodes() {
		m.ended.WithLabelValues(strconv.Itoa(int(code)))
	}
	for _, l := range guard.Limits() {
		m.limited.WithLabelValues(l.String())
	}
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return float64(value()) })
	}
	for _, c := range []prometheus.Collector{
		m.requests, m.refused, m.limited, m.ended, m.failed, calls, m.results, m.pushed,
		gauge("skein_gateway_ready", "Whether this gateway lets workers in.", func() int {
			if g.key.Load().why != "" {
				return 0
			}
			return 1
		}),
		gauge("skein_gateway_claims", "Claim codes that were handed out by this gateway, or by those that share a store with it, and not used.", func() int { return g.guard.Claims() }),
		gauge("skein_gateway_workers", "Outside workers that are attached at this gateway; of gateways that share a store, those with a connection to it.", func() int { return attached(g.o.Crew, g.rpc) }),
		gauge("skein_gateway_connections", "Connections of outside workers at this gateway.", func() int { return g.push.Connections() }),
		gauge("skein_gateway_results_bytes", "Memory of results at this gateway whose fate the holder has not told.", func() int { return g.o.Crew.Stats().Bytes }),
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// disconnected counts a connection that was ended.
func (m *metrics) disconnected(code api.DisconnectCode) {
	m.ended.WithLabelValues(strconv.Itoa(int(code))).Inc()
}

// attached is how many workers are at this gateway.
func attached(c desk.Crew, here *rpc.Service) int {
	if _, shared := c.(desk.Shared); shared {
		return here.Connected()
	}
	return c.Stats().Attached
}

// call counts what a worker asked. A method that there is not has no name here.
func (m *metrics) call(method string, out any, err error) {
	c, known := m.calls[method]
	switch {
	case !known:
		return
	case err != nil:
		c.refused.Inc()
		return
	}
	c.answered.Inc()
	if said, ok := out.(api.WorkVerdicts); ok {
		for _, v := range said.Verdicts {
			m.results.WithLabelValues(v).Inc()
		}
	}
}
