package gossip

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/transport"
	"github.com/skein-project/skein/internal/loglimit"
)

// Options are what Records is made of. All but Registerer must be set.
type Options struct {
	Self     cluster.NodeID
	Verifier member.Verifier
	Secret   []byte         // keys the proof in peer_announce
	Known    member.Records // at the start
	Save     func(member.Records) error

	Now  func() time.Duration
	Wall func() time.Time
	Net  *transport.Transport
	// Post runs a function on the owner's goroutine later, Call waits for it.
	// Go starts a goroutine whose context ends with the owner; it reports whether
	// the owner runs.
	Post func(func())
	Call func(context.Context, func()) error
	Go   func(func(context.Context)) bool

	// Changed is called with what records did to the membership and which new
	// contradictions they show; Stored after every change of the table, before it
	// is passed on; Merged after that.
	Changed func(member.Change, []member.Evidence)
	Stored  func()
	Merged  func(ch member.Change, from cluster.NodeID, push bool)
	// Reach lists the hosts that news is pushed to. Alive reports whether one is.
	Reach func() []cluster.NodeID
	Alive func(cluster.NodeID) bool
	// TimedOut is called with a member that did not answer: perhaps full-size
	// packets do not get through.
	TimedOut func(cluster.NodeID)

	Logger     zerolog.Logger
	Gate       *loglimit.Gate
	Registerer prometheus.Registerer // optional
}
