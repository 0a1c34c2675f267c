package journal

import (
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/eventlog/audit"
)

// Timing of the repair of a log.
const (
	mendEvery = 2 * time.Second
	mendTry   = 30 * time.Second
)

// Mendable is a log of which a repair found parts missing.
type Mendable interface {
	Repairing() []audit.Repairing
	// Missing reports whether events are missing that this host has acknowledged.
	Missing(audit.Repairing) bool
	// Mend asks a host for what is missing, and returns what still is.
	Mend(ctx context.Context, peer cluster.NodeID) ([]audit.Repairing, error)
	Head(event.SourceID) event.Head
}

// MenderOptions are what a Mender needs.
type MenderOptions struct {
	Self   cluster.NodeID
	Log    Mendable
	Voters func() cluster.VoterConfig
	// Peers are the other hosts that can be asked.
	Peers func() []cluster.NodeID
	// VoteLost tells the lease that this host does not know what it acknowledged.
	VoteLost func(reason string)
	Logger   zerolog.Logger
}

// Mender fetches what a repair of the log found missing.
type Mender struct{ o MenderOptions }

// NewMender returns a Mender for a log that is open.
func NewMender(o MenderOptions) *Mender { return &Mender{o: o} }

// Run fetches what is missing until it is there; it returns when ctx ends. While
// events are missing that this host has acknowledged, it does not vote.
func (m *Mender) Run(ctx context.Context) error {
	if slices.ContainsFunc(m.o.Log.Repairing(), m.o.Log.Missing) && len(m.o.Voters().Voters) > 1 {
		m.o.VoteLost("its event log is being repaired")
	}
	tick := time.NewTicker(mendEvery)
	defer tick.Stop()
	for left := m.o.Log.Repairing(); len(left) > 0; {
		peers := m.o.Peers()
		for _, r := range left {
			if i := slices.Index(peers, r.Peer); i > 0 {
				peers[0], peers[i] = peers[i], peers[0]
			}
		}
		left = m.ask(ctx, peers)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// ask asks one host after the other, and returns what is still missing.
func (m *Mender) ask(ctx context.Context, peers []cluster.NodeID) []audit.Repairing {
	before := m.o.Log.Repairing()
	left := before
	if len(peers) == 0 {
		peers = []cluster.NodeID{m.o.Self} // nobody to ask, but there may be files to read
	}
	for _, peer := range peers {
		try, cancel := context.WithTimeout(ctx, mendTry)
		var err error
		left, err = m.o.Log.Mend(try, peer)
		cancel()
		if err != nil {
			m.o.Logger.Debug().Err(err).Str("peer", string(peer)).Msg("repair of the event log goes on")
		}
		if len(left) == 0 {
			break
		}
	}
	for _, r := range before {
		if !slices.ContainsFunc(left, func(o audit.Repairing) bool { return o.Source == r.Source && o.State == r.State }) {
			m.o.Logger.Info().Str("source", r.Source.String()).Uint64("seq", m.o.Log.Head(r.Source).Seq).Msg("event log repaired")
		}
	}
	return left
}
