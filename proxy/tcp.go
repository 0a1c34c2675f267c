package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/skein-project/skein/internal/wait"
)

// serveTCP copies each connection both ways.
func (p *Proxy) serveTCP(ctx context.Context, wg *sync.WaitGroup) error {
	stop := context.AfterFunc(ctx, func() { p.o.Listen.Close() })
	defer stop()
	// Waiting connections stay in the kernel's queue.
	room := make(chan struct{}, p.o.Connections)
	l := p.listener()
	for {
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		client, err := l.Accept()
		if err != nil {
			<-room
			if ctx.Err() != nil {
				return nil
			}
			if temporary, ok := err.(interface{ Temporary() bool }); ok && temporary.Temporary() { //nolint:errorlint // net/http asks the same
				_ = wait.For(ctx, 50*time.Millisecond) // too many files open
				continue
			}
			return fmt.Errorf("proxy: %w", err)
		}
		wg.Go(func() {
			defer func() { <-room }()
			p.pipe(ctx, client)
		})
	}
}

// pipe ends when both directions have, one idles, or the context ends.
func (p *Proxy) pipe(ctx context.Context, client net.Conn) {
	defer client.Close()
	if c, ok := client.(*circuitConn); ok { // the service may speak first
		if client.SetReadDeadline(time.Now().Add(p.o.Connect)) != nil || c.begin() != nil {
			return
		}
	}
	var service net.Conn
	err := p.try(ctx, p.next(), func(t *target) (err error) {
		service, err = t.dial(ctx)
		return err
	})
	if err != nil {
		p.o.Log.Debug().Err(err).Str("component", "proxy").Msg("target refused a connection")
		return
	}
	defer service.Close()
	stop := context.AfterFunc(ctx, func() { client.Close(); service.Close() })
	defer stop()
	if client.SetDeadline(time.Now().Add(p.o.Idle)) != nil {
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		p.copyHalf(client, service)
	}()
	p.copyHalf(service, client)
	<-back
}

// copyHalf copies one direction and passes its end on. The idle time counts
// for both directions, so a silent download does not end for want of uploads.
func (p *Proxy) copyHalf(to, from net.Conn) {
	raw := func(c net.Conn) net.Conn {
		if i, ok := c.(*idleConn); ok {
			return i.Conn
		}
		return c
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			later := time.Now().Add(p.o.Idle)
			_, _ = raw(from).SetReadDeadline(later), raw(to).SetDeadline(later)
			if _, werr := to.Write(buffer[:n]); werr != nil {
				_ = raw(from).SetDeadline(time.Now()) // the reader must not wait for it
				return
			}
		}
		if err == nil {
			continue
		}
		if half, ok := raw(to).(interface{ CloseWrite() error }); ok && err == io.EOF { //nolint:errorlint // Read returns it bare
			_ = half.CloseWrite()
			return
		}
		_ = raw(to).SetDeadline(time.Now())
		return
	}
}
