package onion

import (
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/proxy"
	"github.com/skein-project/skein/publisher/descriptor"
)

// Site is what this host serves under the cluster's onion addresses.
type Site struct {
	Targets     []string // each once, at most wire.MaxBackends; none: nothing
	Mode        string   // of package proxy
	Port        int      // of the addresses
	Host        string
	Check       proxy.Check // of the targets
	Connections int
	PerCircuit  int // of them
	Body        int64
	BodyRate    int64
	Answer      time.Duration
	Idle        time.Duration
}

// proxy is what the proxy is to do of it.
func (s Site) proxy() proxy.Options {
	return proxy.Options{
		Targets: s.Targets, Mode: s.Mode, Host: s.Host, Check: s.Check,
		Connections: s.Connections, PerCircuit: s.PerCircuit, Body: s.Body, BodyRate: s.BodyRate, Answer: s.Answer, Idle: s.Idle,
	}
}

// site is how what this host serves is.
type site struct {
	drained atomic.Bool // by an operator
	leaving atomic.Bool // this daemon stops

	mu       sync.Mutex
	backends []wire.Backend // in the order in which they were first seen
}

// see takes the health of a backend and returns that of all.
func (s *site) see(name string, healthy bool) []wire.Backend {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := make([]wire.Backend, 0, len(s.backends)+1)
	found := false
	for _, b := range s.backends {
		if b.Name == name {
			found, b.Healthy = true, healthy
		}
		next = append(next, b)
	}
	if !found {
		next = append(next, wire.Backend{Name: name, Healthy: healthy})
	}
	s.backends = next
	return next
}

// healthy reports whether a backend takes connections; those not looked at yet
// do.
func (s *site) healthy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.backends {
		if b.Healthy {
			return true
		}
	}
	return len(s.backends) == 0
}

// weight is this host's share of the points; others wait for those of a host that
// has one.
func (h *Host) weight() uint32 {
	if len(h.o.Site.Targets) == 0 || h.site.drained.Load() || h.site.leaving.Load() {
		return 0
	}
	return h.o.Weight()
}

// check says what makes a target of this host healthy.
func (s *Site) check() string {
	switch {
	case len(s.Targets) == 0:
		return ""
	case s.Mode == proxy.ModeHTTP:
		return s.Check.String()
	}
	return "takes connections; one that hangs does too, and is not noticed"
}

// socket is where tor passes the clients of the addresses on.
func (h *Host) socket() string { return h.o.Tor.Socket(h.o.Site.Port) + ".web" }

// Proxy makes what this host runs behind its onion service. joins serves the
// paths below path by itself; nil: nothing does.
func (h *Host) Proxy(ctx context.Context, joins http.Handler, path string) (*proxy.Proxy, error) {
	l, err := listenUnix(ctx, h.socket())
	if err != nil {
		return nil, err
	}
	o := h.o.Site.proxy()
	o.Listen, o.Public, o.Join, o.JoinPath, o.Log, o.OnHealth = l, h.names, joins, path, h.log, h.onBackend
	o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		return h.o.Tor.Dial(ctx, "proxy", address)
	}
	o.OnCut = func(why string) { h.m.cut.WithLabelValues(why).Inc() }
	p, err := proxy.New(o)
	if err != nil {
		_ = l.Close() // nobody uses it
		return nil, err
	}
	var backends []wire.Backend
	for _, t := range o.Targets {
		backends = h.site.see(t, true) // until it fails
	}
	h.o.Cluster.ReportBackends(backends)
	return p, nil
}

// names are the addresses that the cluster serves, as clients know them.
func (h *Host) names() []string {
	list := h.status.Load().Addresses
	names := make([]string, len(list))
	for i, x := range list {
		names[i] = descriptor.Address(x.Key).String()
	}
	return names
}

// onBackend takes a change of a backend's health; it is not called twice at once.
func (h *Host) onBackend(name string, healthy bool, why error) {
	b := event.OnionTarget{Target: clipReason(name), Healthy: healthy}
	if why != nil {
		b.Reason = clipReason(why.Error())
	}
	h.o.Cluster.ReportBackends(h.site.see(name, healthy))
	h.m.healthy.Set(boolean(h.site.healthy()))
	h.log.Warn().Str("addr", name).Bool("healthy", healthy).AnErr("err", why).Msg("target of the onion addresses")
	h.o.Log.Note(event.KindOnionTarget, b)
	h.look()
}
