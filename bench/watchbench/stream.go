package watchbench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/bench/suite"
)

// asking are connections to a socket, each of which is one client, and the bytes that
// came to them.
type asking struct {
	socket string
	bytes  atomic.Int64
	stop   context.CancelFunc
	ctx    context.Context
	all    sync.WaitGroup
	failed chan error // holds the first
}

func newAsking(ctx context.Context, socket string) *asking {
	a := &asking{socket: socket, failed: make(chan error, 1)}
	a.ctx, a.stop = context.WithCancel(ctx)
	return a
}

// connect opens a connection that is closed with a.
func (a *asking) connect() (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(a.ctx, "unix", a.socket)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(a.ctx, func() { conn.Close() })
	return counted{conn, &a.bytes}, nil
}

// fail keeps the first error that is not the end.
func (a *asking) fail(err error) {
	if a.ctx.Err() != nil {
		return
	}
	select {
	case a.failed <- err:
	default:
	}
}

// close ends all, and tells what went wrong.
func (a *asking) close() error {
	a.stop()
	a.all.Wait()
	select {
	case err := <-a.failed:
		return err
	default:
		return nil
	}
}

// watch opens a watch and reads it; it returns once the watch is synced.
func (a *asking) watch(topics string) error {
	conn, err := a.connect()
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "GET /v1/watch?topics=%s HTTP/1.1\r\nHost: local\r\n\r\n", topics); err != nil {
		return err
	}
	synced := make(chan struct{})
	a.all.Go(func() {
		text, begun := []byte(`"event":"synced"`), false
		buf := make([]byte, 64<<10)
		have := 0
		for {
			n, err := conn.Read(buf[have:])
			if err != nil {
				a.fail(fmt.Errorf("the watch ended: %w", err))
				return
			}
			if begun {
				continue
			}
			have += n
			if begun = bytes.Contains(buf[:have], text); begun {
				close(synced)
				have = 0
			} else if have > len(buf)/2 {
				have = copy(buf, buf[have-len(text):have])
			}
		}
	})
	select {
	case <-synced:
		return nil
	case err := <-a.failed:
		return err
	case <-time.After(time.Minute):
		return errStart
	case <-a.ctx.Done():
		return a.ctx.Err()
	}
}

// poll asks for all the paths once a second.
func (a *asking) poll(paths []string, looks *atomic.Int64) error {
	conn, err := a.connect()
	if err != nil {
		return err
	}
	a.all.Go(func() {
		if suite.Phase(a.ctx) != nil {
			return
		}
		r := bufio.NewReaderSize(conn, 64<<10)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			for _, path := range paths {
				if err := get(conn, r, path); err != nil {
					a.fail(err)
					return
				}
			}
			looks.Add(1)
			select {
			case <-tick.C:
			case <-a.ctx.Done():
				return
			}
		}
	})
	return nil
}

func get(conn net.Conn, r *bufio.Reader, path string) error {
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: local\r\n\r\n", path); err != nil {
		return err
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %w", path, errors.New(resp.Status))
	}
	return nil
}

// counted counts what is read.
type counted struct {
	net.Conn
	bytes *atomic.Int64
}

func (c counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}
