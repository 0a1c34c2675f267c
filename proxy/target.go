package proxy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// target is one of the services that a Proxy passes connections to.
type target struct {
	o                *Options
	name             string // as configured
	network, address string
	transport        *http.Transport // with its own pool
	down             atomic.Bool     // the last dial failed
	unhealthy        atomic.Bool     // by its health, for who sends requests
	health           health
}

// newTarget checks the name of a target; o is complete.
func newTarget(name string, o *Options) (*target, error) {
	t := &target{o: o, name: name}
	var err error
	if t.network, t.address, err = parseTarget(name, o.Dial != nil); err != nil {
		return nil, err
	}
	t.transport = &http.Transport{
		DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return t.dial(ctx) },
		DisableCompression:     true,
		MaxIdleConnsPerHost:    32,
		MaxConnsPerHost:        o.Connections,
		IdleConnTimeout:        30 * time.Second,
		ResponseHeaderTimeout:  o.Answer,
		MaxResponseHeaderBytes: int64(o.Header),
	}
	return t, nil
}

// parseTarget says where a target is; the network is "tcp", "unix" or "onion".
func parseTarget(name string, onions bool) (network, address string, err error) {
	if path, ok := strings.CutPrefix(name, "unix:"); ok {
		if !strings.HasPrefix(path, "/") || len(path) > 100 {
			return "", "", fmt.Errorf("proxy: target %q is no absolute path of at most 100 bytes", name)
		}
		return "unix", path, nil
	}
	host, port, err := net.SplitHostPort(name)
	if err != nil {
		return "", "", fmt.Errorf("proxy: target %q is neither host:port nor unix:/path: %w", name, err)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", "", fmt.Errorf("proxy: target %q has no port in 1-65535", name)
	}
	if onionHost.MatchString(host) {
		if !onions {
			return "", "", fmt.Errorf("proxy: target %s needs tor, which is off (hint: set tor.enabled)", host)
		}
		return "onion", name, nil
	}
	// A name would be resolved outside of tor, by whoever answers.
	if a, err := netip.ParseAddr(host); err != nil && host != "localhost" || err == nil && a.IsUnspecified() {
		return "", "", fmt.Errorf("proxy: target %q is neither an IP address, localhost nor an onion address", name)
	}
	return "tcp", name, nil
}

// dialError reports a target that could not be connected to: it has seen
// nothing of the client, so another one may be tried.
type dialError struct {
	target string
	err    error
}

func (e *dialError) Error() string { return fmt.Sprintf("target %s: %v", e.target, e.err) }
func (e *dialError) Unwrap() error { return e.err }

// dial connects to the target, whatever kind it is; the error is a dialError.
func (t *target) dial(ctx context.Context) (net.Conn, error) {
	return t.dialWithin(ctx, t.o.Connect)
}

func (t *target) dialWithin(ctx context.Context, limit time.Duration) (net.Conn, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var conn net.Conn
	var err error
	if t.network == "onion" {
		conn, err = t.o.Dial(limited, t.address)
	} else {
		var d net.Dialer
		conn, err = d.DialContext(limited, t.network, t.address)
	}
	if err != nil {
		if ctx.Err() == nil { // else the client left, or the proxy stops
			t.down.Store(true)
		}
		return nil, &dialError{t.name, err}
	}
	t.down.Store(false)
	return &idleConn{Conn: conn, limit: t.o.Idle}, nil
}

// send sends a request as this target is to see it, and has the answer
// rewritten accordingly. It changes the request.
func (t *target) send(r *http.Request) (*http.Response, error) {
	n := t.names(r.Host)
	exchangeOf(r.Context()).names = n
	r.URL.Scheme, r.URL.Host = "http", t.urlHost()
	r.Host = t.host(r.Host)
	n.request(r.Header, r.Host)
	return t.transport.RoundTrip(r)
}

func (t *target) names(asked string) *names {
	n := &names{public: asked}
	n.target = both(t.host(asked))
	if t.network != "unix" {
		n.target = append(n.target, both(t.name)...)
	}
	return n
}

// host is the Host that the target sees.
func (t *target) host(asked string) string {
	switch {
	case t.o.Host != "":
		return t.o.Host
	case t.network == "unix":
		return asked
	}
	return strings.TrimSuffix(t.name, ":80")
}

// urlHost only names the pool of connections.
func (t *target) urlHost() string {
	if t.network == "unix" {
		return "unix"
	}
	return t.name
}
