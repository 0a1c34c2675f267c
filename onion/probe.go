package onion

import (
	"context"
	"fmt"
	"io"
	"net"
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
// A proxy that passes bytes on has no answer of its own.
func (h *Host) ask(ctx context.Context, p policy.Probe) error {
	a := p.Service
	conn, err := h.o.Tor.Dial(ctx, probeIsolation+string(p.Node), net.JoinHostPort(a.String(), strconv.Itoa(h.o.Site.Port)))
	if err != nil {
		return err
	}
	defer conn.Close()
	if h.o.Site.Mode != proxy.ModeHTTP {
		return nil
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
