package membership

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/join/door"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/forward"
)

// Timing of becoming a sponsor.
const (
	// sponsorEvery is how often a host that is no sponsor looks whether a
	// renewal of its certificate made it one, or the root key came.
	sponsorEvery = 2 * time.Second
	// promoteAfter is how long a host waits after its start before it makes
	// itself a sponsor: by then it should know the others.
	promoteAfter = 10 * time.Second
	// recordsTime bounds the reading of the records.
	recordsTime = 5 * time.Second
	// promoteTime bounds making itself a sponsor.
	promoteTime = 5 * time.Second
)

// SponsorCoord is what a sponsor needs of the coordination service.
type SponsorCoord interface {
	Coord
	// Records returns the records that this host knows.
	Records(ctx context.Context) (member.Records, error)
}

// SponsorOptions are what a Sponsor needs.
type SponsorOptions struct {
	Identity *join.Identity
	StateDir string
	Listen   netip.AddrPort // of joins
	// OnionListener opens the port for joins of this host's own onion service;
	// nil: it has none.
	OnionListener func(ctx context.Context) (net.Listener, error)
	// Handle serves streams of a protocol.
	Handle   func(proto string, serve func(ctx context.Context, from cluster.NodeID, conn net.Conn))
	CertLife time.Duration // of what it certifies; 0: the usual one

	Roster  *Roster
	Coord   SponsorCoord
	Journal Journal
	// Depart asks the holder to go on without a voter that is to be removed.
	Depart func(ctx context.Context, actor string, node cluster.NodeID) error
	// SetOwner asks the holder to log whose a host is.
	SetOwner func(ctx context.Context, actor string, set event.HostOwnerSet) error
	Log      View             // nil: nobody is removed unasked
	Wall     func() time.Time // by which events are stamped; nil: this machine's clock
	// Others lists the other sponsors that are alive.
	Others     func() []cluster.NodeID
	Logger     zerolog.Logger
	Registerer prometheus.Registerer
}

// Sponsor is what this host does for others once its certificate lets it:
// it admits, renews and removes them. It is safe for concurrent use, except that
// Open comes before Run.
type Sponsor struct {
	o       SponsorOptions
	sponsor atomic.Pointer[join.Sponsor] // nil: this host certifies nobody
	invites atomic.Pointer[join.Invites] // nil: this host admits nobody
	server  *door.Server                 // nil: not open yet
}

// NewSponsor returns a Sponsor that serves nobody yet.
func NewSponsor(o SponsorOptions) *Sponsor {
	if o.Wall == nil {
		o.Wall = time.Now
	}
	return &Sponsor{o: o}
}

// Active reports whether this host may certify others.
func (s *Sponsor) Active() bool { return s.sponsor.Load() != nil }

// Invites returns the invites of this host, nil if it admits nobody.
func (s *Sponsor) Invites() *join.Invites { return s.invites.Load() }

// NotSponsor refuses what only a sponsor does.
func (s *Sponsor) NotSponsor() *api.Problem {
	return api.Errorf(api.CodeConflict, "%s is no sponsor: it may not admit, renew or remove hosts", s.o.Identity.Node).
		WithHint("%s", forward.SponsorHint(s.o.Others()))
}

// Open opens the listener of joins if this host's certificate lets it admit
// others already.
func (s *Sponsor) Open(ctx context.Context) error {
	if !s.certified() {
		return nil
	}
	sponsor, invites, err := s.newSponsor()
	if err != nil {
		return err
	}
	s.server, err = s.openJoins(ctx, sponsor, invites)
	return err
}

// Run serves joins, as soon as this host's certificate lets it admit others,
// until ctx ends.
func (s *Sponsor) Run(ctx context.Context) error {
	reaping, stop := context.WithCancel(ctx)
	var reaper sync.WaitGroup
	reaper.Go(func() { s.reap(reaping) })
	defer reaper.Wait()
	defer stop()
	if s.server != nil {
		return s.server.Run(ctx)
	}
	return s.become(ctx)
}

// certified reports whether this host's certificate lets it certify others.
func (s *Sponsor) certified() bool { return s.o.Roster.IsSponsor(s.o.Identity.Node) }

// rootKey reads the root key, nil if it is not on this host: it may be moved
// while the daemon runs.
func (s *Sponsor) rootKey() (ed25519.PrivateKey, error) {
	return join.RootKey(s.o.StateDir, s.o.Identity.RootPub)
}

// become waits for a sponsor's certificate, or for the root key to sign one
// itself, and then serves joins until ctx ends.
func (s *Sponsor) become(ctx context.Context) error {
	tick := time.NewTicker(sponsorEvery)
	defer tick.Stop()
	var sponsor *join.Sponsor
	var invites *join.Invites
	logged := ""
	for start := time.Now(); ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		root, err := s.rootKey()
		if err == nil && !s.certified() && (root == nil || time.Since(start) < promoteAfter) {
			continue
		}
		if err == nil && sponsor == nil {
			sponsor, invites, err = s.newSponsor()
		}
		if err == nil {
			err = s.promote(ctx, sponsor)
		}
		var srv *door.Server
		if err == nil {
			srv, err = s.openJoins(ctx, sponsor, invites)
		}
		if err == nil {
			s.o.Logger.Info().Msg("this host became a sponsor")
			return srv.Run(ctx)
		}
		if text := err.Error(); text != logged { // the host is useful without it
			logged = text
			s.o.Logger.Error().Err(err).Msg("this host should be a sponsor but cannot be one yet")
		}
	}
}

// promote makes this host a sponsor with the root key, unless it is one.
func (s *Sponsor) promote(ctx context.Context, sponsor *join.Sponsor) error {
	if s.certified() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, promoteTime)
	defer cancel()
	rec, err := sponsor.Promote(ctx)
	if err != nil {
		return err
	}
	if err := s.o.Coord.AddRecords(ctx, member.Records{Certs: []member.Signed{rec}}); err != nil {
		return err
	}
	s.o.Journal.Note(event.KindMemberRenewed, event.MemberRenewed{Node: s.o.Identity.Node})
	return nil
}

// newSponsor makes the sponsor that certifies and removes hosts and, on a host
// with the root key, makes this host a sponsor.
func (s *Sponsor) newSponsor() (*join.Sponsor, *join.Invites, error) {
	invites, err := join.OpenInvites(s.o.StateDir)
	if invites == nil {
		return nil, nil, err
	}
	if err != nil {
		s.o.Logger.Error().Err(err).Msg("going on without the invites")
	}
	sponsor, err := join.NewSponsor(join.SponsorOptions{
		Identity: s.o.Identity, RootKey: s.rootKey, Invites: invites, Records: s.records, OnAdmit: s.admit, CertLife: s.o.CertLife,
		Logger: s.o.Logger, Registerer: s.o.Registerer,
	})
	if err != nil {
		return nil, nil, err
	}
	s.sponsor.Store(sponsor)
	return sponsor, invites, nil
}

// openJoins opens the join listener.
func (s *Sponsor) openJoins(ctx context.Context, sponsor *join.Sponsor, invites *join.Invites) (*door.Server, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", s.o.Listen.String())
	if err != nil {
		return nil, fmt.Errorf("join listener: %w", err)
	}
	o := door.ServerOptions{Key: s.o.Identity.IDKey(), Listener: ln, Handler: sponsor, Knows: invites.Knows, Registerer: s.o.Registerer}
	if s.o.OnionListener != nil {
		if o.Onion, err = s.o.OnionListener(ctx); err != nil {
			return nil, errors.Join(err, ln.Close())
		}
	}
	srv, err := door.NewServer(o)
	if err != nil {
		if o.Onion != nil {
			err = errors.Join(err, o.Onion.Close())
		}
		return nil, errors.Join(err, ln.Close())
	}
	s.o.Handle(door.Proto, srv.ServeDoor)
	s.invites.Store(invites)
	return srv, nil
}

// admit is called for each newcomer: its records are merged, and its admission
// is logged, before it gets its answer.
func (s *Sponsor) admit(ctx context.Context, a join.Admission) error {
	if a.Owner != "" && !a.Again { // before it is a member, so that it runs nobody else's jobs
		set := event.HostOwnerSet{Node: a.Member.Node, Owner: a.Owner}
		if err := s.o.SetOwner(ctx, "invite:"+a.Invite, set); err != nil {
			return fmt.Errorf("owner of %s: %w", a.Member.Node, err)
		}
	}
	if err := s.o.Coord.AddRecords(ctx, member.Records{Certs: []member.Signed{a.Cert}, Anns: []member.Signed{a.Ann}}); err != nil {
		return err
	}
	if a.Again {
		return nil
	}
	_, err := s.o.Journal.Append(ctx, event.KindMemberJoined, event.MemberJoined{
		Node: a.Member.Node, IDPub: a.Member.IDPub, IP4: a.Member.IP4.String(), Invite: a.Invite,
	})
	return err
}

// records is what this host knows of the members.
func (s *Sponsor) records() member.Records {
	ctx, cancel := context.WithTimeout(context.Background(), recordsTime)
	defer cancel()
	rs, err := s.o.Coord.Records(ctx)
	if err != nil {
		s.o.Logger.Warn().Err(err).Msg("membership records not read")
	}
	return rs
}

// RenewFor issues a new certificate to the member that asks.
func (s *Sponsor) RenewFor(ctx context.Context, by forward.Asker, _ forward.None) (forward.Certificate, error) {
	var none forward.Certificate
	node := by.From
	sponsor := s.sponsor.Load()
	if sponsor == nil {
		return none, forward.Lacking(s.NotSponsor())
	}
	before, _ := s.o.Roster.Member(node)
	rec, err := sponsor.Renew(ctx, node)
	if errors.Is(err, join.ErrNotSponsor) || errors.Is(err, join.ErrNeedRoot) {
		return none, forward.Lacking(api.Errorf(api.CodeConflict, "%v", err))
	}
	if err == nil {
		err = s.o.Coord.AddRecords(ctx, member.Records{Certs: []member.Signed{rec}})
	}
	if err != nil {
		return none, api.Errorf(api.CodeConflict, "%v", err)
	}
	if cert, err := member.ParseCert(rec); err == nil && cert.Issued != before.CertIssued {
		s.o.Journal.Note(event.KindMemberRenewed, event.MemberRenewed{Node: node, Expires: cert.Expires})
	}
	return forward.Certificate{Cert: new(rec.String()), By: s.o.Identity.Node}, nil
}
