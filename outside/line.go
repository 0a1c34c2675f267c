package outside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/centrifugal/centrifuge-go"

	"github.com/skein-project/skein/api"
)

// Times and bounds of a connection.
const (
	lineTime   = 15 * time.Second // until it is open
	callTime   = 10 * time.Second
	pingDelay  = 15 * time.Second // that a ping may be late by
	maxWaiting = 512              // pushes
	httpTime   = time.Minute      // for which a worker does without a connection, until it tries again
)

// How the protocol says that the token of a connection is none, or has ended.
const (
	invalidToken = 3500
	tokenExpired = 109
)

// line is a connection to a gateway, which ends for good when it is lost.
type line struct {
	g      *gateway
	client *centrifuge.Client // unless until is set
	rpc    rpc
	until  *time.Timer       // nil: there is a connection; else all is asked by HTTP, and nothing is told unasked
	pushes chan api.WorkPush // capacity maxWaiting: when it is full the line is lost
	lost   chan struct{}     // closed when the line is lost

	mu  sync.Mutex
	why error
}

// rpc asks over a connection.
type rpc func(ctx context.Context, method string, data []byte) (centrifuge.RPCResult, error)

// ask ends with ctx, which centrifuge-go v0.12.1 does not where a write fails and the
// connection ends at the same time: it calls its own callback twice, and the second call
// waits for ever. The goroutine of such a call stays, one for a line that was lost.
func (r rpc) ask(ctx context.Context, method string, data []byte) ([]byte, error) {
	type answer struct {
		centrifuge.RPCResult
		err error
	}
	got := make(chan answer, 1)
	go func() {
		res, err := r(ctx, method, data)
		got <- answer{res, err}
	}()
	select {
	case a := <-got:
		return a.Data, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// open connects to a gateway.
func (g *gateway) open(ctx context.Context, version string) (*line, error) {
	token, err := g.bearer(ctx)
	if err != nil {
		return nil, err
	}
	hello, err := json.Marshal(api.WorkConnect{Client: api.GatewayClient})
	if err != nil {
		return nil, err
	}
	l := &line{g: g, pushes: make(chan api.WorkPush, maxWaiting), lost: make(chan struct{})}
	l.client = centrifuge.NewJsonClient(g.realtime(), centrifuge.Config{
		Token: token, Name: "skein-work", Version: version, Data: hello, TLSConfig: g.tls, NetDialContext: g.dial,
		GetToken: func(centrifuge.ConnectionTokenEvent) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, askTime)
			defer cancel()
			return g.bearer(ctx)
		},
		ReadTimeout: callTime, WriteTimeout: callTime, HandshakeTimeout: callTime, MaxServerPingDelay: pingDelay,
	})
	l.rpc = l.client.RPC
	var once sync.Once
	up := make(chan struct{})
	connecting := false // of the client's one goroutine for events
	l.client.OnConnecting(func(e centrifuge.ConnectingEvent) {
		if connecting {
			l.lose(disconnected(api.DisconnectCode(e.Code), e.Reason))
		}
		connecting = true
	})
	l.client.OnDisconnected(func(e centrifuge.DisconnectedEvent) {
		if e.Code == invalidToken {
			g.refused(token, api.Errorf(api.CodeUnauthorized, "%s", e.Reason))
		}
		l.lose(disconnected(api.DisconnectCode(e.Code), e.Reason))
	})
	l.client.OnError(func(e centrifuge.ErrorEvent) {
		if p, ok := errors.AsType[*centrifuge.Error](e.Error); ok && p.Code == tokenExpired {
			g.refused(token, api.Errorf(api.CodeUnauthorized, "%s", p.Message))
		}
		l.lose(e.Error)
	})
	sub, err := l.client.NewSubscription(api.WorkChannel + string(g.id))
	if err != nil {
		l.client.Close()
		return nil, err
	}
	sub.OnSubscribed(func(centrifuge.SubscribedEvent) { once.Do(func() { close(up) }) })
	sub.OnUnsubscribed(func(e centrifuge.UnsubscribedEvent) { l.lose(fmt.Errorf("not told anything any more: %s", e.Reason)) })
	sub.OnError(func(e centrifuge.SubscriptionErrorEvent) { l.lose(e.Error) })
	sub.OnPublication(func(e centrifuge.PublicationEvent) {
		var p api.WorkPush
		if err := json.Unmarshal(e.Data, &p); err != nil {
			l.lose(fmt.Errorf("push: %w", err))
			return
		}
		select {
		case l.pushes <- p:
		default:
			l.lose(errors.New("more is pushed than is taken"))
		}
	})
	err = sub.Subscribe()
	if err == nil {
		err = l.client.Connect()
	}
	if err != nil {
		l.close()
		return nil, err
	}
	wait := time.NewTimer(lineTime)
	defer wait.Stop()
	select {
	case <-up:
		// An address has few connections at a gateway, and there may be many computers at it.
		g.http.CloseIdleConnections()
		return l, nil
	case <-l.lost:
		err = l.cause()
	case <-wait.C:
		err = fmt.Errorf("no connection within %v", lineTime)
	case <-ctx.Done():
		err = ctx.Err()
	}
	l.close()
	return nil, err
}

// What ends a computer for good, whichever way it hears of it.
var (
	errReplaced = stop(errors.New("another computer works with the key of this one: each needs a state directory of its own"))
	errRevoked  = stop(errors.New("this worker was shut out by its owner or an operator, or its owner may do nothing at present"))
)

// disconnected is what it means that a gateway ended the connection.
func disconnected(code api.DisconnectCode, reason string) error {
	switch {
	case code == api.DisconnectReplaced:
		return errReplaced
	case code == api.DisconnectRevoked:
		return errRevoked
	case code == api.DisconnectTooOld:
		return stop(fmt.Errorf("%s: update skein on this computer", reason))
	case code.Final():
		return stop(fmt.Errorf("the gateway lets this worker in no more: %s (%d)", reason, code))
	}
	return fmt.Errorf("disconnected: %s (%d)", reason, code)
}

// byHTTP is a line without a connection, which is lost after a while.
func (g *gateway) byHTTP() *line {
	l := &line{g: g, lost: make(chan struct{})}
	l.until = time.AfterFunc(httpTime+rand.N(httpTime/4), func() { l.lose(errAgain) })
	return l
}

// told reports whether a worker is told things unasked by this line.
func (l *line) told() bool { return l.until == nil }

func (l *line) lose(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.why == nil {
		l.why = why
		close(l.lost)
	}
}

// cause is why the line is lost.
func (l *line) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

func (l *line) close() {
	if !l.told() {
		l.until.Stop()
		return
	}
	l.client.Close()
}

// call asks the gateway for something.
func (l *line) call(ctx context.Context, method string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if !l.told() || len(text) > api.MaxCall {
		return l.g.call(ctx, method, text, out)
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	got, err := l.rpc.ask(ctx, method, text)
	if err != nil {
		if e, ok := errors.AsType[*centrifuge.Error](err); ok && e.Code > 1000 {
			return &api.Problem{Status: int(e.Code) - 1000, Detail: e.Message, Code: codeOf(int(e.Code) - 1000)}
		}
		if errors.Is(err, centrifuge.ErrClientDisconnected) {
			select { // why it was is told right after that
			case <-l.lost:
				return l.cause()
			case <-ctx.Done():
			}
		}
		return err
	}
	return json.Unmarshal(got, out)
}

// codeOf is the code of a problem of which the status is known: those that are handled.
func codeOf(status int) api.Code {
	switch status {
	case 403:
		return api.CodeForbidden
	case 409:
		return api.CodeConflict
	case 429:
		return api.CodeOverloaded
	case 503:
		return api.CodeNotReady
	}
	return api.CodeInternal
}
