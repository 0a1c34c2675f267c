package h3

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/skein-project/skein/load"
	"github.com/skein-project/skein/load/h1"
)

// Protocols are what TLS agrees on.
var Protocols = []string{http3.NextProtoH3}

// keepAlive is how often a connection says that it is there while nothing comes, for an answer may be
// long in the making.
const keepAlive = 10 * time.Second

// quiet keeps quic-go from writing to standard error that the kernel gives it less memory for a
// socket than it asks for: that is as the machine is, and the report is not the place.
var quiet = sync.OnceFunc(func() { _ = os.Setenv("QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING", "true") })

// Connect makes a connection, from a socket of its own. release is called when it has ended; nil:
// nobody is to hear of it. Errors are of type *h1.Error.
func Connect(ctx context.Context, to netip.AddrPort, conf *tls.Config, release func()) (*quic.Conn, error) {
	quiet()
	socket, err := net.ListenUDP("udp", nil)
	if err != nil {
		return nil, &h1.Error{Class: h1.DialClass(err), Err: err}
	}
	tr := &quic.Transport{Conn: socket}
	end := func() {
		_ = tr.Close() // nothing uses it any more
		_ = socket.Close()
	}
	k, err := tr.Dial(ctx, net.UDPAddrFromAddrPort(to), conf, &quic.Config{MaxIncomingStreams: -1, KeepAlivePeriod: keepAlive, Versions: []quic.Version{quic.Version1}})
	if err != nil {
		end()
		class, ok := Fault(err)
		if !ok || class == load.Timeout {
			class = h1.DialClass(err)
		}
		if errors.Is(err, context.DeadlineExceeded) || class == load.Timeout {
			class = load.ConnectTimeout
		}
		return nil, &h1.Error{Class: class, Err: err}
	}
	context.AfterFunc(k.Context(), func() {
		end()
		if release != nil {
			release()
		}
	})
	return k, nil
}

// Fault is the class of an error of QUIC or HTTP/3; ok is false if it is none.
func Fault(err error) (class load.Class, ok bool) {
	if h, is := errors.AsType[*http3.Error](err); is {
		switch {
		case h.ErrorCode == http3.ErrCodeNoError: // http3 itself closes so behind a GOAWAY
			return load.EOF, true
		case !h.Remote:
			return load.Protocol, true
		}
		return load.Reset, true
	}
	if t, is := errors.AsType[*quic.TransportError](err); is {
		switch {
		case t.ErrorCode.IsCryptoError():
			return h1.TLSClass(err), true
		case t.ErrorCode == quic.ConnectionRefused:
			return load.Refused, true
		case t.ErrorCode == quic.NoError:
			return load.EOF, true
		}
		return load.Protocol, true
	}
	if a, is := errors.AsType[*quic.ApplicationError](err); is {
		if a.ErrorCode == quic.ApplicationErrorCode(http3.ErrCodeNoError) || a.ErrorCode == 0 {
			return load.EOF, true
		}
		return load.Reset, true
	}
	for _, one := range []struct {
		is    bool
		class load.Class
	}{
		{is[*quic.StatelessResetError](err), load.Reset},
		{is[*quic.StreamError](err), load.Reset},
		{is[*quic.VersionNegotiationError](err), load.Protocol},
		{is[*quic.IdleTimeoutError](err), load.Timeout},
		{is[*quic.HandshakeTimeoutError](err), load.ConnectTimeout},
	} {
		if one.is {
			return one.class, true
		}
	}
	if err != nil && strings.HasSuffix(err.Error(), goneAway) {
		return load.EOF, true
	}
	return 0, false
}

// goneAway is how http3 says, by no type of its own, that a GOAWAY came before the request was sent.
const goneAway = "connection in graceful shutdown"

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
