package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/h1"
	"github.com/skein-project/skein/load/reach"
	"github.com/skein-project/skein/load/stat"
	"github.com/skein-project/skein/load/ws"
)

// newSocketClient opens WebSockets. What it dials goes through the network of the engine, and
// so past the guard; a redirect is an answer.
func (e *Engine) newSocketClient() *http.Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		raw, _, err := e.dialFor(ctx, nil)
		return raw, err
	}
	return &http.Client{
		Transport:     &http.Transport{DialContext: dial, DialTLSContext: dial, DisableKeepAlives: true, MaxResponseHeaderBytes: h1.MaxHead},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// overSocket is exchange over a WebSocket of its own.
func (l *lane) overSocket(o *reach.Origin, st *load.Step, deadline time.Time) error {
	e := l.u.e
	d := &dialling{o: o, deadline: deadline}
	ctx, cancel := context.WithDeadline(context.WithValue(e.hard, exchangeKey{}, d), deadline)
	defer cancel()
	req, err := l.newRequest(ctx, o, http.MethodGet)
	if err != nil {
		return &h1.Error{Class: load.Generator, Err: err}
	}
	r := ws.Request{Client: e.sockets, URL: o.Origin.String() + string(l.target), Header: req.Header, Messages: st.Messages, Max: h1.MaxBody}
	if req.Host != o.Host {
		r.Host = req.Host
	}
	if st.HasBody {
		r.Message = l.body
	}
	if e.o.Trace != nil {
		l.request = fmt.Appendf(l.request[:0], "GET %s HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\n\r\n%s", l.target, req.Host, l.body)
	}
	a, err := ws.Exchange(ctx, r)
	d.mu.Lock()
	times := d.times
	d.mu.Unlock()
	l.dialled(o, times)
	if !a.Sent.IsZero() {
		l.set(stat.Send, a.Sent.Sub(a.Opened))
		l.sample.Out += uint64(len(l.body))
	}
	if !a.First.IsZero() {
		l.set(stat.FirstByte, a.First.Sub(a.Opened))
		l.set(stat.Receive, time.Since(a.First))
	}
	l.sample.In += uint64(a.Size) //nolint:gosec // not below 0
	switch {
	case errors.Is(err, ws.ErrLarge):
		return &h1.Error{Class: load.TooLarge, Err: fmt.Errorf("a message has more than %d bytes", h1.MaxBody)}
	case errors.Is(err, ws.ErrProtocol):
		return &h1.Error{Class: load.Protocol, Err: err}
	case errors.Is(err, ws.ErrClosed):
		return &h1.Error{Class: load.EOF, Err: err}
	case err != nil:
		return multiplexedError(ctx, err)
	}
	l.answer.proto, l.answer.status, l.answer.header, l.answer.body, l.answer.size = "HTTP/1.1", a.Status, a.Header, a.Last, a.Size
	return nil
}
