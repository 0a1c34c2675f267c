package share

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/loglimit"
)

// Net carries messages and questions to members.
type Net interface {
	Send(to cluster.NodeID, kind wire.Type, payload any) error
	Ask(ctx context.Context, to cluster.NodeID, proto string, d time.Duration, request any, limit int, answer any) error
	Paths() *transport.Paths
	HandleLimited(proto string, l transport.Limits, h transport.Handler)
}

// Options are what Shares is made of. All but Registerer must be set.
type Options struct {
	Now func() time.Duration
	Net Net
	// Wall is the time of day.
	Wall func() time.Time
	// Post runs a function on the owner's goroutine later, Call waits for it.
	// Go starts a goroutine whose context ends with the owner; it reports whether
	// the owner runs.
	Post func(func())
	Call func(context.Context, func()) error
	Go   func(func(context.Context)) bool
	// Audience lists the living hosts to which news goes at once. Large says that the
	// cluster has more hosts than get heartbeats directly, Keeps that this host
	// publishes or holds and so keeps the shares of a large cluster too.
	Audience func() []cluster.NodeID
	Large    func() bool
	Keeps    func() bool
	// Changed is called when something that a view shows has changed.
	Changed func()

	Logger     zerolog.Logger
	Gate       *loglimit.Gate
	Registerer prometheus.Registerer // optional
}
