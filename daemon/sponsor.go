package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
)

// Timing of becoming a sponsor.
const (
	// sponsorEvery is how often a host that is no sponsor looks whether a
	// renewal of its certificate made it one, or the root key came.
	sponsorEvery = 2 * time.Second
	// promoteAfter is how long after its start a host waits before it makes
	// itself a sponsor: it should know by then who the others are.
	promoteAfter = 10 * time.Second
	// promoteTime bounds that.
	promoteTime = 5 * time.Second
)

// isSponsor reports whether this host's certificate lets it certify others.
func (n *node) isSponsor() bool {
	self, ok := n.member(n.id.Node)
	return ok && slices.Contains(self.Caps, member.CapSponsor)
}

// startSponsor serves joins if this host's certificate lets it admit others,
// and else as soon as it does.
func (n *node) startSponsor(ctx context.Context, l *lifecycle) error {
	run := n.becomeSponsor
	if n.isSponsor() {
		sponsor, invites, err := n.newSponsor()
		if err != nil {
			return err
		}
		srv, err := n.openJoins(ctx, sponsor, invites)
		if err != nil {
			return err
		}
		run = srv.Run
	}
	l.start(stage{name: "join", run: run, grace: 3 * time.Second})
	return nil
}

// becomeSponsor waits for a sponsor's certificate, or for the root key and
// signs it itself, and serves joins then, until ctx ends.
func (n *node) becomeSponsor(ctx context.Context) error {
	tick := time.NewTicker(sponsorEvery)
	defer tick.Stop()
	var sponsor *join.Sponsor
	var invites *join.Invites
	told := ""
	for start := time.Now(); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		root, err := n.rootKey()
		if err == nil && !n.isSponsor() && (root == nil || time.Since(start) < promoteAfter) {
			continue
		}
		if err == nil && sponsor == nil {
			sponsor, invites, err = n.newSponsor()
		}
		if err == nil {
			err = n.promote(ctx, sponsor)
		}
		var srv *join.Server
		if err == nil {
			srv, err = n.openJoins(ctx, sponsor, invites)
		}
		if err == nil {
			n.log.Info().Msg("this host became a sponsor")
			return srv.Run(ctx)
		}
		if text := err.Error(); text != told { // the host is of use without
			told = text
			n.log.Error().Err(err).Msg("this host should be a sponsor and cannot yet")
		}
	}
}

// promote makes this host a sponsor by the root key unless it is one.
func (n *node) promote(ctx context.Context, sponsor *join.Sponsor) error {
	if n.isSponsor() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, promoteTime)
	defer cancel()
	rec, err := sponsor.Promote(ctx)
	if err != nil {
		return err
	}
	if err := n.coord.AddRecords(ctx, member.Records{Certs: []member.Signed{rec}}); err != nil {
		return err
	}
	n.note(cluster.KindMemberRenewed, cluster.MemberRenewed{Node: n.id.Node})
	return nil
}

// newSponsor makes what certifies, removes and, where the root key lies, makes
// this host a sponsor.
func (n *node) newSponsor() (*join.Sponsor, *join.Invites, error) {
	invites, err := join.OpenInvites(n.cfg.StateDir)
	if err != nil {
		return nil, nil, err
	}
	sponsor, err := join.NewSponsor(join.SponsorOptions{
		Identity: n.id, RootKey: n.rootKey, Invites: invites, Records: n.records, OnAdmit: n.admit, CertLife: n.certLife,
		Logger: n.log, Registerer: n.reg,
	})
	if err != nil {
		return nil, nil, err
	}
	n.sponsor.Store(sponsor)
	return sponsor, invites, nil
}

// openJoins opens the join listener.
func (n *node) openJoins(ctx context.Context, sponsor *join.Sponsor, invites *join.Invites) (*join.Server, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", n.cfg.Join.Listen.String())
	if err != nil {
		return nil, fmt.Errorf("join listener: %w", err)
	}
	o := join.ServerOptions{Identity: n.id, Listener: ln, Handler: sponsor, Knows: invites.Knows, Registerer: n.reg}
	if n.tor != nil && n.tor.tor.Own() {
		if o.Onion, err = n.tor.listen(ctx, onionJoinPort); err != nil {
			return nil, errors.Join(err, ln.Close())
		}
	}
	srv, err := join.NewServer(o)
	if err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	n.coord.Handle(join.ProtoDoor, srv.ServeDoor)
	n.invites.Store(invites)
	return srv, nil
}
