package transport

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/path"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/loglimit"
)

// inboxSize is how many accepted messages wait for their reader; a full inbox
// drops the newest, counted as reason "queue".
const inboxSize = 256

// Options are what a Transport is made of. Fields without "optional" must be
// set.
type Options struct {
	Self cluster.NodeID
	Key  ed25519.PrivateKey // identity
	Boot uint64             // of this start, see coord.MarkBoot

	// PacketConn and Listener are this host's sockets at its mesh address. Run
	// closes both.
	PacketConn net.PacketConn
	Listener   net.Listener
	// DialTCP opens a connection inside the mesh.
	DialTCP func(ctx context.Context, to netip.AddrPort) (net.Conn, error)
	Port    uint16 // of the other hosts
	// Fallback is how hosts are reached when the mesh does not carry; optional.
	Fallback *Fallback
	// Heartbeat is the time between two signs of life of a host, Suspect the
	// silence after which it is suspected: by them paths are judged.
	Heartbeat, Suspect time.Duration
	Tolerance          time.Duration // of timestamps

	Now  func() time.Duration // local clock
	Wall func() time.Time
	Rand func() float64
	// Post runs a function on the owner's goroutine. OnPath hears there that
	// messages to a member take another path.
	Post   func(func())
	OnPath func(path.Changed)

	// Reasons are those of refusals that the owner adds.
	Reasons    []wire.Reason
	Logger     zerolog.Logger
	Gate       *loglimit.Gate
	Registerer prometheus.Registerer // optional
}

func (o *Options) check() error {
	switch {
	case o.PacketConn == nil || o.Listener == nil || o.DialTCP == nil:
		return errors.New("sockets missing")
	case o.Fallback != nil && o.Fallback.Dial == nil:
		return errors.New("fallback without dialler")
	}
	return nil
}
