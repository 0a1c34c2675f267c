package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
)

// Periods of the care for this host's own records.
const (
	// announceEvery is how often the announcement is renewed though nothing
	// changed; hosts that join later refuse one that is a month old.
	announceEvery = 24 * time.Hour
	// selfEvery is how often what this host says of itself is compared with
	// how it is.
	selfEvery = time.Second
)

// selfCare keeps this host's own records: its announcement, its certificate,
// its WireGuard key, and their end. All of it happens in one goroutine, so
// that no two announcements of one epoch exist.
type selfCare struct {
	n *node
	// id is the identity with the WireGuard key of now.
	id *join.Identity
	// asks run in the goroutine; capacity 0, the sender waits.
	asks chan func(context.Context)

	said     join.About // last announced
	saidAt   time.Time
	epoch    uint64      // of that announcement
	forked   atomic.Bool // others hold another announcement of the same epoch
	rotation *rotation   // nil: none under way
	renewTry time.Time   // not before
	gone     bool        // left: nothing is said any more
}

func newSelfCare(n *node, said join.About, epoch uint64) *selfCare {
	return &selfCare{n: n, id: n.id, asks: make(chan func(context.Context)), said: said, saidAt: time.Now(), epoch: epoch}
}

// ask runs f in the goroutine and waits for its answer.
func ask[T any](ctx context.Context, s *selfCare, f func(context.Context) (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	done := make(chan answer, 1)
	var none T
	select {
	case s.asks <- func(own context.Context) {
		own, cancel := context.WithCancel(own)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		v, err := f(own)
		done <- answer{v, err}
	}:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	select {
	case a := <-done:
		return a.v, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// run keeps the records until ctx ends.
func (s *selfCare) run(ctx context.Context) error {
	tick := time.NewTicker(selfEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-s.asks:
			f(ctx)
		case <-tick.C:
		}
		if s.gone {
			continue
		}
		if err := s.rotate(ctx); err != nil {
			return err
		}
		s.renew(ctx)
		s.refresh(ctx)
	}
}

// refresh announces this host anew if it changed or a day passed.
func (s *selfCare) refresh(ctx context.Context) {
	about, err := s.about()
	if err != nil {
		s.n.log.Warn().Err(err).Msg("own addresses not known")
		return
	}
	again := s.contradicted()
	if !again && reflect.DeepEqual(about, s.said) && time.Since(s.saidAt) < announceEvery {
		return
	}
	if err := s.announce(ctx, about); err != nil {
		s.n.log.Error().Err(err).Msg("own announcement refused")
	}
}

// contradicted reports whether the others hold another announcement of this
// host than it made last: its state directory came out of a backup. It then
// sees to it that the next one counts.
func (s *selfCare) contradicted() bool {
	again := s.forked.Swap(false)
	self, ok := s.n.member(s.n.id.Node)
	if !ok || self.Epoch <= s.epoch {
		return again
	}
	if err := join.RaiseEpoch(s.n.cfg.StateDir, self.Epoch); err != nil {
		s.n.log.Error().Err(err).Msg("others hold a later announcement of this host")
		return false
	}
	s.n.log.Warn().Uint64("epoch", self.Epoch).Msg("others hold a later announcement of this host: a restored backup?")
	return true
}

// about is what this host has to say of itself now: what it is told to, where
// the others see it, and the key that it is changing to.
func (s *selfCare) about() (join.About, error) {
	about, err := aboutOf(s.n.conf(), s.n.meshPrefixes()...)
	if err != nil {
		return about, err
	}
	s.seen(&about)
	if r := s.rotation; r != nil {
		about.Next, about.NextAt = r.key, r.at
	}
	return about, nil
}

// announce signs what this host says and gives it to the others.
func (s *selfCare) announce(ctx context.Context, about join.About) error {
	s.said, s.saidAt = about, time.Now() // also if it fails: not again at once
	ann, err := join.Announce(s.n.cfg.StateDir, s.id, about, s.saidAt)
	if err != nil {
		return err
	}
	s.epoch = epochOf(ann)
	return s.n.coord.AddRecords(ctx, member.Records{Anns: []member.Signed{ann}})
}

// epochOf is the epoch of an announcement that this host made.
func epochOf(ann member.Signed) uint64 {
	a, err := member.ParseAnn(ann)
	if err != nil {
		panic("daemon: own announcement is unreadable: " + err.Error())
	}
	return a.Epoch
}

// meshPrefixes are the addresses inside the mesh, which are no way to it.
func (n *node) meshPrefixes() []netip.Prefix {
	out := []netip.Prefix{n.id.Network.Masked()}
	if p, err := member.ULA(n.id.Cluster, n.id.IDPub).Prefix(48); err == nil {
		out = append(out, p)
	}
	return out
}

// Timing of the renewal of certificates.
const (
	// renewTime bounds one request to the sponsors.
	renewTime = 20 * time.Second
	// renewPause lies between tries, and the same again at random.
	renewPause = time.Minute
)

// renew asks a sponsor for a new certificate once the present one is due. If
// none answers for long nothing is lost but new members' trust: who knows this
// host keeps it until it is revoked.
func (s *selfCare) renew(ctx context.Context) {
	now := time.Now()
	if now.Before(s.renewTry) {
		return
	}
	var cert member.Cert
	due := false
	look, cancel := context.WithTimeout(ctx, readTableTime)
	err := s.n.coord.WithTable(look, func(t *member.Table) {
		cert, _ = t.Cert(s.n.id.Node)
		due = t.RenewDue(s.n.id.Node, now)
	})
	cancel()
	if err != nil || !due {
		return
	}
	pause := renewPause
	if life := time.Duration(cert.Expires-cert.Issued) * time.Second; life > 0 {
		pause = min(pause, life/20)
	}
	s.renewTry = now.Add(pause + time.Duration(s.n.rand()*float64(pause)))
	if err := s.askForCert(ctx, cert); err != nil {
		s.n.log.Warn().Err(err).Time("expires", time.Unix(cert.Expires, 0)).Msg("certificate not renewed yet")
	}
}

// askForCert gets a certificate newer than old from a sponsor.
func (s *selfCare) askForCert(ctx context.Context, old member.Cert) error {
	ctx, cancel := context.WithTimeout(ctx, renewTime)
	defer cancel()
	reply, err := s.n.toSponsor(ctx, remoteRequest{Renew: &renewRequest{}})
	if err != nil {
		return err
	}
	if reply.Cert == nil {
		return fmt.Errorf("empty answer of %s", reply.By)
	}
	rec, err := member.ParseSigned(*reply.Cert)
	if err != nil {
		return fmt.Errorf("answer of %s: %w", reply.By, err)
	}
	cert, err := member.ParseCert(rec)
	if err != nil {
		return fmt.Errorf("answer of %s: %w", reply.By, err)
	}
	if cert.Issued <= old.Issued {
		return fmt.Errorf("not due yet by the clock of %s", reply.By)
	}
	if err := s.n.coord.AddRecords(ctx, member.Records{Certs: []member.Signed{rec}}); err != nil {
		return err
	}
	s.n.log.Info().Str("peer", string(reply.By)).Msg("certificate renewed")
	return nil
}

// renewFor is the sponsor's part: it certifies a member anew and says so.
func (n *node) renewFor(ctx context.Context, node cluster.NodeID) remoteReply {
	sponsor := n.sponsor.Load()
	if sponsor == nil {
		return lacking(n.notSponsor())
	}
	before, _ := n.member(node)
	rec, err := sponsor.Renew(ctx, node)
	if errors.Is(err, join.ErrNotSponsor) || errors.Is(err, join.ErrNeedRoot) {
		return lacking(api.Errorf(api.CodeConflict, "%v", err))
	}
	if err == nil {
		err = n.coord.AddRecords(ctx, member.Records{Certs: []member.Signed{rec}})
	}
	if err != nil {
		return remoteReply{Problem: api.Errorf(api.CodeConflict, "%v", err)}
	}
	if cert, err := member.ParseCert(rec); err == nil && cert.Issued != before.CertIssued {
		n.note(cluster.KindMemberRenewed, cluster.MemberRenewed{Node: node, Expires: cert.Expires})
	}
	return remoteReply{Cert: new(rec.String()), By: n.id.Node}
}

// notSponsor answers who asks this host for what only a sponsor does.
func (n *node) notSponsor() *api.Problem {
	return api.Errorf(api.CodeConflict, "%s is no sponsor: it may not admit, renew or remove hosts", n.id.Node).
		WithHint("%s", askSponsors(n.livingSponsors()))
}

// aboutOf is what this host announces of itself; addresses inside own, the
// mesh's prefixes, are left out.
func aboutOf(cfg config.Config, own ...netip.Prefix) (join.About, error) {
	endpoints := cfg.Mesh.Advertise
	if len(endpoints) == 0 {
		var err error
		if endpoints, err = localEndpoints(cfg.Mesh.Listen, own); err != nil {
			return join.About{}, err
		}
	}
	return join.About{
		Zone: cfg.Node.Zone, Priority: cfg.Node.Priority, Witness: cfg.Node.Witness,
		Endpoints: slices.Clone(endpoints[:min(len(endpoints), member.MaxEndpoints)]),
		Onion:     ownOnion(cfg),
		Tor:       cfg.Tor.Enabled,
	}, nil
}

// seen adds what the others see: behind NAT this host is reached where its
// packets come from, unless the operator says otherwise. It comes last: the
// others may be wrong, and where a host is by its own word is tried first.
func (s *selfCare) seen(about *join.About) {
	v := s.n.coord.View()
	about.NAT = v.NAT
	at := v.PublicEndpoint
	if !v.NAT || !at.IsValid() || len(s.n.conf().Mesh.Advertise) > 0 || slices.Contains(about.Endpoints, at) {
		return
	}
	about.Endpoints = withSeen(about.Endpoints, at)
}

// withSeen puts where the others see this host behind its own endpoints.
func withSeen(own []netip.AddrPort, at netip.AddrPort) []netip.AddrPort {
	return append(slices.Clone(own[:min(len(own), member.MaxEndpoints-1)]), at)
}
