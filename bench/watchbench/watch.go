package watchbench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/status"
)

// source is a daemon of which only the log is there.
type source struct {
	status.Backend

	mu      sync.Mutex
	log     []event.Event
	changed chan struct{}
}

func (s *source) add(list []event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, list...)
	close(s.changed)
	s.changed = make(chan struct{})
}

// Header implements status.ClusterReader.
func (s *source) Header() api.Header { return api.Header{APIVersion: api.APIVersion, Node: "n1"} }

// Knows implements status.EventReader.
func (s *source) Knows(cluster.NodeID) bool { return true }

// Oldest implements status.EventReader.
func (s *source) Oldest() api.Cursor { return api.Cursor{} }

// Changed implements status.EventReader.
func (s *source) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Cursor implements status.Positions.
func (s *source) Cursor() api.Cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := api.Cursor{}
	if n := len(s.log); n > 0 {
		at.Advance(s.log[n-1].Source, s.log[n-1].Seq)
	}
	return at
}

// Healthy implements status.Probe.
func (s *source) Healthy() error { return nil }

// Ready implements status.Probe.
func (s *source) Ready() error { return nil }

// Events implements status.EventReader.
func (s *source) Events(_ context.Context, at api.Cursor, _ time.Time, _ event.Subject) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		s.mu.Lock()
		list := s.log
		s.mu.Unlock()
		if len(list) == 0 {
			return
		}
		// All are of one source and numbered from 1.
		for _, e := range list[min(uint64(len(list)), at[list[0].Source]):] {
			at.Advance(e.Source, e.Seq)
			if !yield(e, nil) {
				return
			}
		}
	}
}

// newWatch serves n watches of the log over TCP.
func newWatch(ctx context.Context, socket string, n int) (*fan, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, err
	}
	src := &source{changed: make(chan struct{})}
	var addr net.Addr
	srv, err := status.New(status.Options{
		Socket: socket, Backend: src, Log: zerolog.Nop(), MaxWatchers: 4 * n, // one address has a quarter
		ListenTCP: func(context.Context) (net.Listener, error) {
			l, err := net.Listen("tcp4", "127.0.0.1:0") //nolint:noctx // closed by the server
			if err == nil {
				addr = l.Addr()
			}
			return l, err
		},
	})
	if err != nil {
		return nil, err
	}
	serve, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(serve) }()
	f := &fan{name: "watchers", readers: &readers{}, publish: src.add}
	f.close = func() error {
		stop()
		f.readers.close()
		return <-ended
	}
	select {
	case <-srv.Up():
	case err := <-ended:
		stop()
		return nil, err
	}
	if err := f.readers.connect(n, func(i int) (net.Conn, error) {
		conn, err := dial(ctx, i, addr.String())
		if err != nil {
			return nil, err
		}
		return conn, begin(conn, addr.String())
	}); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// begin asks for the stream and reads up to where it is synced.
func begin(conn net.Conn, host string) error {
	if _, err := fmt.Fprintf(conn, "GET /v1/watch?topics=events HTTP/1.1\r\nHost: %s\r\n\r\n", host); err != nil {
		return err
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	defer conn.SetReadDeadline(time.Time{}) //nolint:errcheck // a connection of TCP has deadlines
	r := bufio.NewReaderSize(conn, 1)
	for {
		line, err := r.ReadString('\n')
		switch {
		case err != nil:
			return fmt.Errorf("%w: %w", errStart, err)
		case strings.Contains(line, `"event":"synced"`):
			return nil
		case strings.Contains(line, "problem"):
			return fmt.Errorf("%w: %s", errStart, line)
		}
	}
}
