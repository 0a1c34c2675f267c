package watchbench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/internal/idlehosts"
	"github.com/skein-project/skein/status"
)

// madeUp is a daemon of hosts that are made up, whose log is empty.
type madeUp struct {
	*source
	*idlehosts.Cluster
}

// Has implements status.Positions.
func (m *madeUp) Has(api.Cursor) bool { return true }

// Made is a daemon of hosts that are made up.
type Made struct {
	Socket string
	hosts  *idlehosts.Cluster
	log    *source
	seq    uint64
	end    func() error
}

// Close ends it.
func (m *Made) Close() error { return m.end() }

// Change has one host be suspect, and the one before it alive again; 0: all are alive.
// It is logged.
func (m *Made) Change(host int) {
	m.hosts.Suspect(host)
	m.seq++
	from, to := "alive", "suspect"
	if host == 0 {
		host, from, to = 1, to, from
	}
	m.log.add([]event.Event{{
		Source: event.SourceID{Node: "host1", Inc: 1}, Seq: m.seq, HLC: cluster.NewHLC(time.Now(), 0), Kind: event.KindMemberHealth,
		Body: fmt.Appendf(nil, `{"node":"host%d","from":%q,"to":%q}`, host, from, to),
	}})
}

// Serve has a socket answer for n hosts that are made up, as a daemon does, with room for
// so many watchers.
func Serve(ctx context.Context, n, watchers int) (*Made, error) {
	dir, err := os.MkdirTemp("", "sk") // short enough for a socket's address
	if err != nil {
		return nil, err
	}
	m := &Made{
		Socket: filepath.Join(dir, "s"), hosts: idlehosts.New(n), log: &source{changed: make(chan struct{})},
	}
	srv, err := status.New(status.Options{Socket: m.Socket, Backend: &madeUp{m.log, m.hosts}, Log: zerolog.Nop(), MaxWatchers: 4 * watchers})
	if err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(run) }()
	m.end = func() error {
		stop()
		err := <-ended
		_ = os.RemoveAll(dir) // of sockets only
		return err
	}
	select {
	case <-srv.Up():
		return m, nil
	case err := <-ended:
		stop()
		return nil, fmt.Errorf("the server ended: %w", err)
	}
}
