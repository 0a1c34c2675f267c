package status

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/job"
	"github.com/skein-project/skein/overload"
	"github.com/skein-project/skein/status/door"
)

// Options configures a Server.
type Options struct {
	// Socket is the absolute path of the unix socket.
	Socket string
	// Group may change things, besides root and the daemon's own user; empty
	// or unknown to the system: nobody else.
	Group string
	// API is where users reach this host. Endpoints is that as users are told it; Run
	// fills it.
	API       door.API
	Endpoints []api.Endpoint
	// ListenTCP opens the read-only listener; nil: there is none.
	ListenTCP func(ctx context.Context) (net.Listener, error)
	// Page is served there as well, beside the API; nil: there is none. Inside is how a
	// page of this process asks what everybody may read; nil: none does.
	Page   http.Handler
	Inside *door.Inside
	// Hosts are further names of this host, in lower case, which TCP requests and what
	// is signed may name; the listener's own address is always one, localhost if that is
	// a loopback.
	Hosts   []string
	Backend Backend
	// ClusterID is what proofs of users name.
	ClusterID string
	// Bearer is what tokens of users are good for: off, read (the default) or all.
	Bearer string
	// Tokens are the access tokens of users; nil: none is taken.
	Tokens  door.Tokens
	Version string
	Cluster string // its name
	Log     zerolog.Logger
	// Registerer gets the server's own metrics; may be nil.
	Registerer prometheus.Registerer
	// Gatherer is what /metrics shows; nil: no /metrics.
	Gatherer prometheus.Gatherer
	// Enter lets a request in, or says that this host has too much to do; what it returns is
	// called at the end. Brief requests count among those that run at once, others only
	// begin at a time. nil: all are let in.
	Enter func(ctx context.Context, lane overload.Lane, brief bool) (leave func(), refused *overload.Refused)
	// Paused says that this host has too much to do: watchers hear less often. nil: never.
	Paused func() bool
	// MaxArtefactBytes bounds one upload; 0: cluster.MaxModuleBytes.
	MaxArtefactBytes int64
	// MaxFollowers bounds followers of jobs and events; 0: 128.
	MaxFollowers int
	// MaxWatchers bounds watches; 0: 1024.
	MaxWatchers int
}

func (o *Options) check() error {
	switch {
	case o.Backend == nil:
		return errors.New("status server: no backend")
	case !filepath.IsAbs(o.Socket):
		return fmt.Errorf("status server: socket %q is not an absolute path", o.Socket)
	case o.MaxArtefactBytes < 0 || o.MaxFollowers < 0 || o.MaxWatchers < 0:
		return errors.New("status server: negative limit")
	}
	if o.MaxArtefactBytes == 0 {
		o.MaxArtefactBytes = int64(job.MaxModuleBytes)
	}
	if o.Enter == nil {
		o.Enter = func(context.Context, overload.Lane, bool) (func(), *overload.Refused) { return func() {}, nil }
	}
	if o.Bearer == "" {
		o.Bearer = "read"
	}
	if o.MaxFollowers == 0 {
		o.MaxFollowers = 128
	}
	if o.MaxWatchers == 0 {
		o.MaxWatchers = 1024
	}
	return nil
}
