package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// HeaderTimeout is how long whoever asks goes on waiting, in milliseconds: a host
// that answers, or asks another one, takes no longer. A duration needs no clock that
// both have.
const HeaderTimeout = "Skein-Timeout-Ms"

// Target is where a daemon takes requests.
type Target struct {
	name, network, addr string
	tls                 bool
}

// ParseTarget reads the path of a unix socket, host:port, http://host:port or
// https://host:port.
func ParseTarget(text string) (Target, error) {
	t := Target{name: text, network: "tcp"}
	addr, secure := strings.CutPrefix(text, "https://")
	addr, plain := strings.CutPrefix(addr, "http://")
	addr = strings.TrimSuffix(addr, "/")
	_, _, err := net.SplitHostPort(addr)
	switch {
	case text == "":
		return t, errors.New("dial daemon: no socket given")
	case !secure && !plain && (strings.Contains(text, "/") || err != nil):
		t.network, t.addr = "unix", strings.TrimPrefix(text, "unix:")
		return t, nil
	case err != nil:
		return t, fmt.Errorf("dial daemon at %s: %w", text, err)
	}
	t.addr, t.tls = addr, secure
	return t, nil
}

// String is what ParseTarget read.
func (t Target) String() string { return t.name }

// Base is what URLs of the target begin with.
func (t Target) Base() string {
	switch {
	case t.network == "unix":
		return "http://skein"
	case t.tls:
		return "https://" + t.addr
	}
	return "http://" + t.addr
}

// secured is conf for the target: a certificate must be one of its name.
func (t Target) secured(conf *tls.Config) *tls.Config {
	named := conf.Clone()
	if named == nil {
		named = &tls.Config{MinVersion: tls.VersionTLS13}
	}
	if host, _, err := net.SplitHostPort(t.addr); err == nil && named.ServerName == "" {
		named.ServerName = host
	}
	return named
}

// Transport carries requests to the target. What ends before a request was sent is
// an *UnreachableError. conf is for https, nil for the usual one; where it names no
// server, the target is.
func (t Target) Transport(conf *tls.Config) *http.Transport {
	conf = t.secured(conf)
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3,
	}}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, t.network, t.addr)
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err
		}
		if err != nil {
			return nil, &UnreachableError{Target: t.name, Err: err}
		}
		return conn, nil
	}
	return &http.Transport{
		DialContext: dial,
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			ctx, cancel := context.WithTimeout(ctx, dialTimeout)
			defer cancel()
			secure := tls.Client(conn, conf)
			if err := secure.HandshakeContext(ctx); err != nil {
				conn.Close()
				return nil, &UnreachableError{Target: t.name, Err: err}
			}
			return secure, nil
		},
		MaxIdleConns: 2, IdleConnTimeout: 10 * time.Second, DisableCompression: true,
		ResponseHeaderTimeout: 0, // the context's deadline holds
	}
}
