package onion

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/skein-project/skein/onion/policy"
	"github.com/skein-project/skein/proxy"
)

// Times of asking a suspected host behind its onion.
const (
	probeTime      = 15 * time.Second
	probeTimeTest  = 2 * time.Second // in a network with test timings
	probeIsolation = "probe-"
	// holdTime is how long a connection has to stay that nobody answers on. The
	// watchdog ends the tor of a daemon that hangs at about the time at which others
	// suspect it.
	holdTime = 3 * time.Second
)

// probe asks a suspected host behind its onion, in a goroutine of its own; the
// answer comes back to the loop.
func (h *Host) probe(ctx context.Context, p policy.Probe) {
	limit := probeTime
	if n, _ := h.inbox.network(); n != nil && n.Testing {
		limit = probeTimeTest
	}
	h.group.Go(func() {
		probe, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		err := h.ask(probe, p)
		h.inbox.answer(answer{p.Node, err == nil, h.o.Now()})
		h.log.Info().Str("peer", string(p.Node)).Bool("answers", err == nil).Msg("suspected host asked behind its onion")
		h.look()
	})
}

// ask is nil when the proxy of a host answers behind its onion. That it connects
// says little: the tor and the kernel of a host whose daemon hangs still do that.
// A proxy that passes bytes on has no answer of its own, but it keeps the
// connection; one that is closed without a byte has no service or no tor any more.
func (h *Host) ask(ctx context.Context, p policy.Probe) error {
	a := p.Service
	conn, err := h.o.Tor.Dial(ctx, probeIsolation+string(p.Node), net.JoinHostPort(a.String(), strconv.Itoa(h.o.Site.Port)))
	if err != nil {
		return err
	}
	defer conn.Close()
	if h.o.Site.Mode != proxy.ModeHTTP {
		return held(conn)
	}
	if by, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(by); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(conn, "OPTIONS * HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", a); err != nil {
		return err
	}
	_, err = io.ReadFull(conn, make([]byte, 1))
	return err
}

// held is nil when the other side says something, or keeps the connection for
// holdTime.
func held(conn net.Conn) error {
	if err := conn.SetReadDeadline(time.Now().Add(holdTime)); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}
