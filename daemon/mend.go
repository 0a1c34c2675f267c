package daemon

import (
	"context"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/eventlog/audit"
)

// Timing of the repair of a log.
const (
	mendEvery = 2 * time.Second
	mendTry   = 30 * time.Second
)

// mend fetches what a repair of the log found missing, until it is there or ctx
// ends. While events are missing that this host has acknowledged, it does not
// vote.
func (h *history) mend(ctx context.Context, log zerolog.Logger) error {
	if slices.ContainsFunc(h.Repairing(), h.Missing) {
		if cfg := h.peers.voters(); len(cfg.Voters) > 1 {
			h.peers.svc.VoteLost("its event log is being repaired")
		}
	}
	tick := time.NewTicker(mendEvery)
	defer tick.Stop()
	for left := h.Repairing(); len(left) > 0; {
		peers := h.peers.reachable()
		for _, r := range left {
			if i := slices.Index(peers, r.Peer); i > 0 {
				peers[0], peers[i] = peers[i], peers[0]
			}
		}
		left = h.mendFrom(ctx, peers, log)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// mendFrom asks one host after the other.
func (h *history) mendFrom(ctx context.Context, peers []cluster.NodeID, log zerolog.Logger) (left []audit.Repairing) {
	before := h.Repairing()
	left = before
	if len(peers) == 0 {
		peers = []cluster.NodeID{h.peers.self} // nobody to ask, but there may be files to read
	}
	for _, peer := range peers {
		try, cancel := context.WithTimeout(ctx, mendTry)
		var err error
		left, err = h.Mend(try, peer)
		cancel()
		if err != nil {
			log.Debug().Err(err).Str("peer", string(peer)).Msg("repair of the event log goes on")
		}
		if len(left) == 0 {
			break
		}
	}
	for _, r := range before {
		if !slices.ContainsFunc(left, func(o audit.Repairing) bool { return o.Source == r.Source && o.State == r.State }) {
			log.Info().Str("source", r.Source.String()).Uint64("seq", h.Head(r.Source).Seq).Msg("event log repaired")
		}
	}
	return left
}
