package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/skein-project/skein/coord/join"
)

// sponsorEvery is how often a host that is no sponsor looks whether a renewal
// of its certificate made it one.
const sponsorEvery = 10 * time.Second

// startSponsor serves joins if this host's certificate lets it admit others,
// and else as soon as it does.
func (n *node) startSponsor(ctx context.Context, l *lifecycle) error {
	srv, err := n.openSponsor(ctx)
	switch {
	case errors.Is(err, join.ErrNotSponsor):
		l.start(stage{name: "join", run: n.becomeSponsor, grace: 3 * time.Second})
		return nil
	case err != nil:
		return err
	}
	l.start(stage{name: "join", run: srv.Run, grace: 3 * time.Second})
	return nil
}

// becomeSponsor waits for a sponsor's certificate and serves joins then, until
// ctx ends.
func (n *node) becomeSponsor(ctx context.Context) error {
	tick := time.NewTicker(sponsorEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		srv, err := n.openSponsor(ctx)
		switch {
		case errors.Is(err, join.ErrNotSponsor):
		case err != nil: // the host is of use without
			n.log.Error().Err(err).Msg("this host became a sponsor and cannot serve joins")
			<-ctx.Done()
			return ctx.Err()
		default:
			n.log.Info().Msg("this host became a sponsor")
			return srv.Run(ctx)
		}
	}
}

// openSponsor opens the join listener. The error wraps join.ErrNotSponsor
// where this host's certificate does not let it admit others.
func (n *node) openSponsor(ctx context.Context) (*join.Server, error) {
	invites, err := join.OpenInvites(n.cfg.StateDir)
	if err != nil {
		return nil, err
	}
	sponsor, err := join.NewSponsor(join.SponsorOptions{
		Identity: n.id, RootKey: n.rootKey, Invites: invites, Records: n.records, OnAdmit: n.admit, CertLife: n.certLife,
		Logger: n.log, Registerer: n.reg,
	})
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", n.cfg.Join.Listen.String())
	if err != nil {
		return nil, fmt.Errorf("join listener: %w", err)
	}
	srv, err := join.NewServer(join.ServerOptions{Identity: n.id, Listener: ln, Handler: sponsor})
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	n.invites.Store(invites)
	n.sponsor.Store(sponsor)
	return srv, nil
}
