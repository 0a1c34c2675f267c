package join

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/door"
	"github.com/skein-project/skein/coord/join/refusals"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/internal/durable"
)

// maxSponsors is how many hosts the root key makes sponsors, at their join or
// when they renew.
const maxSponsors = 3

// Admission is a host that was admitted.
type Admission struct {
	Member cluster.Member
	Cert   member.Signed
	Ann    member.Signed
	Invite string
	Owner  string // whose the host is to be, as the invite says; empty: nobody's
	// Again says that the hook had succeeded for this host before. Only a
	// crash right after the hook can make it false twice.
	Again bool
}

// SponsorOptions configures a Sponsor.
type SponsorOptions struct {
	// Identity is that of the start, also after a change of the WireGuard key:
	// tokens name the key that it has.
	Identity *Identity
	// RootKey reads the root key, which makes the first hosts sponsors too,
	// whenever it could be of use: it may go offline and come back meanwhile.
	// It returns nil where the key is not kept; optional.
	RootKey func() (ed25519.PrivateKey, error)
	Invites *Invites
	// Records returns the membership records that this host holds now.
	Records func() member.Records
	// OnAdmit makes the new member known: it must hold its records when it
	// returns, since the host speaks next. It is called after the use of the
	// invite is durable and before the answer leaves, one call at a time, and
	// again when the same host asks again. An error withholds the answer.
	OnAdmit func(context.Context, Admission) error
	// CertLife is how long the certificates of members are valid; optional,
	// member.DefaultCertLife if 0.
	CertLife time.Duration
	// Wall is the wall clock, time.Now if nil.
	Wall       func() time.Time
	Logger     zerolog.Logger
	Registerer prometheus.Registerer // may be nil
}

// Sponsor admits, renews and removes hosts. It is the handler of
// POST /.rb/<invite>. Its methods may be called from any goroutine.
type Sponsor struct {
	o     SponsorOptions
	log   zerolog.Logger
	limit *door.Limiter
	tally *refusals.Tally
	// slot serialises all that signs: capacity 1, waited for until the
	// request's deadline.
	slot chan struct{}
	// known is all that this host knows of members, and what it signed itself
	// and Records may not show yet; owned by who has the slot.
	known *member.Table
}

// NewSponsor returns a Sponsor. The error wraps ErrNotSponsor if this host's
// certificate does not let it certify others and the root key is not here
// either, by which the Sponsor can Promote this host.
func NewSponsor(o SponsorOptions) (*Sponsor, error) {
	if o.Identity == nil || o.Invites == nil || o.Records == nil || o.OnAdmit == nil {
		return nil, errors.New("new sponsor: identity, invites, records and on-admit hook are required")
	}
	if o.Wall == nil {
		o.Wall = time.Now
	}
	if o.CertLife < 0 || o.CertLife > member.MaxCertLife {
		return nil, fmt.Errorf("new sponsor: certificates valid for %s", o.CertLife)
	}
	if o.CertLife == 0 {
		o.CertLife = member.DefaultCertLife
	}
	s := &Sponsor{
		o: o, log: o.Logger.With().Str("component", "join").Logger(), limit: door.NewLimiter(), slot: make(chan struct{}, 1),
		known: member.NewTable(o.Identity.Verifier()),
	}
	now := o.Wall()
	t := s.table(now)
	for certs := range slices.Chunk(o.Invites.issued(now), member.MaxMembers) {
		_, _ = t.Restore(member.Records{Certs: certs}, now) // as in table
	}
	root, err := s.root()
	if err != nil {
		return nil, fmt.Errorf("new sponsor: %w", err)
	}
	// The file of invites may have been lost.
	issued := t.Records()
	o.Invites.countFrom(max(issued.LastSerial(o.Identity.IDPub), issued.LastSerial(o.Identity.RootPub)))
	if _, err := s.own(t); err != nil && root == nil {
		return nil, fmt.Errorf("new sponsor: %w", err)
	}
	if s.tally, err = refusals.NewTally(s.log, o.Registerer); err != nil {
		return nil, fmt.Errorf("new sponsor: %w", err)
	}
	return s, nil
}

// table brings what this host knows of members up to date and returns it. It
// runs in the slot.
func (s *Sponsor) table(now time.Time) *member.Table {
	// The records were verified before; one that has lost meanwhile against
	// another is rightly left out.
	_, _ = s.known.Restore(s.o.Records(), now)
	return s.known
}

// own returns this host's sponsor certificate.
func (s *Sponsor) own(t *member.Table) (member.Cert, error) {
	c, ok := t.Cert(s.o.Identity.Node)
	if !ok || !c.Sponsor() || !c.IDPub.Equal(s.o.Identity.IDPub) {
		return member.Cert{}, fmt.Errorf("%s: %w", s.o.Identity.Node, ErrNotSponsor)
	}
	return c, nil
}

// ServeHTTP implements http.Handler.
func (s *Sponsor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), door.ExchangeTime)
	defer cancel()
	from := door.Source(r.RemoteAddr)
	now := s.o.Wall()
	by := door.Try{From: from}
	if name, ok := strings.CutPrefix(r.URL.Path, door.PathPrefix); ok && from == (netip.Addr{}) {
		if _, known := s.o.Invites.get(name); known {
			by.Invite = name
		}
	}
	done, ok := s.limit.Take(by, now)
	if !ok {
		s.tally.Limited(r.RemoteAddr, by.From.String()+by.Invite)
		door.NotFound(w)
		return
	}
	body, tag, err := s.serve(ctx, r, now)
	done(err != nil)
	if err != nil {
		// Not from, which stands for all that come by loopback or through Tor.
		s.tally.Refused(r.RemoteAddr, err)
		door.NotFound(w)
		return
	}
	h := w.Header()
	h["Date"] = nil
	h.Set("Content-Type", "application/json")
	h.Set(macHeader, macEncoding.EncodeToString(tag))
	_, _ = w.Write(body) // the joiner asks again if it does not arrive
}

// serve checks a request in the order of what it costs and what it may learn.
func (s *Sponsor) serve(ctx context.Context, r *http.Request, now time.Time) (body, tag []byte, err error) {
	invite, ok := strings.CutPrefix(r.URL.Path, door.PathPrefix)
	if r.Method != http.MethodPost || !ok || !token.Valid(invite) || r.URL.RawQuery != "" {
		return nil, nil, refusals.New(refusals.Request, "not a join request")
	}
	id := s.o.Identity
	inv, known := s.o.Invites.get(invite)
	secret := inv.Secret
	if !known {
		secret = make([]byte, token.SecretLen) // an unknown invite costs the same
	}
	conn := door.From(r.Context())
	step, same := token.Confirm, true
	if proof, ok := r.Header[proofHeader]; ok {
		if step, same = s.step(conn, proof, invite, secret, inv.Expires); known && same {
			conn.Prove()
		}
	} // else of a host that knows no first step: it confirms what it did not see
	raw, err := io.ReadAll(io.LimitReader(r.Body, door.MaxRequest+1))
	if err != nil || len(raw) > door.MaxRequest {
		return nil, nil, refusals.New(refusals.Request, "body unreadable or above %d bytes", door.MaxRequest)
	}
	req, err := parseRequest(raw)
	if err != nil {
		return nil, nil, refusals.New(refusals.Request, "%w", err)
	}
	transcript := req.transcript(id.Cluster, id.IDPub, invite)
	proven := req.checkSecret(transcript, secret)
	switch {
	case !known:
		return nil, nil, refusals.New(refusals.Invite, "unknown invite %s: it was made on another host, or is long over", invite)
	case !proven:
		return nil, nil, refusals.New(refusals.Secret, "secret of invite %s not proven: the token is another's, or its secret, cluster or sponsor was changed on its way", invite)
	case !same:
		return nil, nil, refusals.New(refusals.Token, "the token of invite %s was changed on its way: the root key, network or end that %s read in it is another: nothing is spent, hand the token over again", invite, req.Node)
	case inv.Revoked:
		return nil, nil, refusals.New(refusals.Invite, "invite %s was revoked, asked by %s", invite, req.Node)
	case !now.Before(inv.Expires):
		return nil, nil, refusals.New(refusals.Invite, "invite %s expired %s ago, asked by %s", invite, now.Sub(inv.Expires).Truncate(time.Second), req.Node)
	}
	if age := now.Sub(time.Unix(req.RequestTime, 0)); age > requestPast || age < -requestAhead {
		return nil, nil, refusals.New(refusals.Clock, "request of %s is %s old by this host's clock: one of the two clocks is wrong", req.Node, age.Truncate(time.Second))
	}
	if err := req.checkKeys(transcript, id.tokenKeys(now)); err != nil {
		return nil, nil, refusals.New(refusals.Keys, "request of %s: %w", req.Node, err)
	}
	conn.Whole()
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, nil, refusals.New(refusals.Internal, "%w", err)
	}
	defer leave()
	if step == token.Ask {
		body, err = s.offer(invite, req, now)
		return body, offerMAC(secret, transcript, body), err
	}
	body, err = s.admit(ctx, invite, req, now)
	return body, answerMAC(secret, transcript, body), err
}

// step returns what a proof is for, and whether it is of the token as this host
// made it.
func (s *Sponsor) step(conn *door.Conn, proof []string, invite string, secret []byte, end time.Time) (step token.Step, same bool) {
	if conn == nil || len(proof) != 1 {
		return "", false
	}
	id := s.o.Identity
	made := token.Token{
		Cluster: id.Cluster, IDPub: id.IDPub, RootPub: id.RootPub, Network: id.Network,
		Invite: invite, Secret: token.NewSecret(secret), Deadline: end,
	}
	for _, st := range []token.Step{token.Ask, token.Confirm} {
		want, err := made.Proof(st, conn.ConnectionState())
		if err == nil && hmac.Equal([]byte(proof[0]), []byte(want)) {
			step, same = st, true
		}
	}
	return step, same
}

// enter waits for the slot.
func (s *Sponsor) enter(ctx context.Context) (leave func(), err error) {
	select {
	case s.slot <- struct{}{}:
		return func() { <-s.slot }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another admission: %w", ctx.Err())
	}
}

// offer says what an authenticated host would become a member of, if nothing keeps
// it from that. It changes nothing, and what it says grants nothing: a certificate
// cannot be taken back, so there is none before the use of the invite is spent. It
// runs in the slot.
func (s *Sponsor) offer(invite string, req *request, now time.Time) ([]byte, error) {
	t := s.table(now)
	if _, _, err := s.entitled(t, invite, req); err != nil {
		return nil, err
	}
	body, err := json.Marshal(offer{Node: s.o.Identity.Node, Network: s.o.Identity.Network, Records: t.Chain(s.o.Identity.Node)})
	if err != nil {
		return nil, refusals.New(refusals.Internal, "encode offer: %w", err)
	}
	s.tally.Count(refusals.Offered)
	s.log.Debug().Str("peer", string(req.Node)).Str("invite", invite).Msg("host may join when it confirms")
	return body, nil
}

// entitled finds what a host was answered before, or refuses it if it may not use
// the invite under its name.
func (s *Sponsor) entitled(t *member.Table, invite string, req *request) (u spent, again bool, err error) {
	inv, _ := s.o.Invites.get(invite) // again: this is the first look inside the slot
	u, again = inv.by(req.IDPub)
	switch {
	case again && u.Node != req.Node:
		return u, again, refusals.New(refusals.Conflict, "host was admitted as %s, now asks as %s", u.Node, req.Node)
	case !again && len(inv.Spent) >= inv.Uses:
		return u, again, refusals.New(refusals.Invite, "invite %s is used up, asked by %s", invite, req.Node)
	case t.Revoked(req.IDPub):
		return u, again, refusals.New(refusals.Conflict, "the key of %s was revoked: it must join with an empty state directory", req.Node)
	case again:
		return u, again, nil
	}
	if old, ok := t.Cert(req.Node); ok && !old.IDPub.Equal(ed25519.PublicKey(req.IDPub)) {
		return u, again, refusals.New(refusals.Conflict, "node id %s belongs to another host", req.Node)
	} else if ok {
		return u, again, nil
	}
	// The name of a host that is gone must not come to mean another key while
	// what it signed is still about: its events are verified by that key.
	for _, r := range t.Retired() {
		if r.Node == req.Node {
			return u, again, refusals.New(refusals.Conflict, "node id %s belongs to a host that is gone, %s: the new host must choose another", req.Node, until(r))
		}
	}
	return u, again, nil
}

// admit certifies an authenticated host that confirmed, or finds what it was
// answered before. It runs in the slot.
func (s *Sponsor) admit(ctx context.Context, invite string, req *request, now time.Time) ([]byte, error) {
	t := s.table(now)
	u, again, err := s.entitled(t, invite, req)
	if err != nil {
		return nil, err
	}
	if !again {
		serial := s.o.Invites.nextSerial()
		cert, err := s.certify(t, req, serial, now)
		if err != nil {
			return nil, err
		}
		u = spent{IDPub: req.IDPub, Node: req.Node, Cert: cert}
		if u.Answer, err = s.answer(t, cert); err != nil {
			return nil, err
		}
	}
	// The records must hold together before anything is written.
	if _, err := t.AddCert(u.Cert, now); err != nil {
		return nil, refusals.New(refusals.Conflict, "%w", err)
	}
	if _, err := t.AddAnn(req.Ann, now); err != nil {
		return nil, refusals.New(refusals.Conflict, "%w", err)
	}
	m, ok := t.MemberByKey(req.IDPub)
	if !ok {
		return nil, refusals.New(refusals.Conflict, "%s lost its certificate", req.Node)
	}
	if !again {
		if err := s.o.Invites.spend(invite, u, s.o.Invites.nextSerial(), now); err != nil {
			return nil, refusals.New(refusals.Internal, "admit %s: %w", req.Node, err)
		}
	}
	made, _ := s.o.Invites.get(invite) // it is there: it was spent
	a := Admission{Member: m, Cert: u.Cert, Ann: req.Ann, Invite: invite, Owner: made.Owner, Again: u.Told}
	if err := s.o.OnAdmit(ctx, a); err != nil {
		return nil, refusals.New(refusals.Internal, "admit %s: %w", req.Node, err)
	}
	if !u.Told {
		if err := s.o.Invites.told(invite, req.IDPub); err != nil {
			return nil, refusals.New(refusals.Internal, "admit %s: %w", req.Node, err)
		}
	}
	result := refusals.Admitted
	if again {
		result = refusals.Again
	}
	s.tally.Count(result)
	s.log.Info().Str("peer", string(m.Node)).Stringer("addr", m.IP4).Str("invite", invite).Bool("again", again).Msg("host admitted")
	return u.Answer, nil
}

// certify finds or signs the certificate of a new host.
func (s *Sponsor) certify(t *member.Table, req *request, serial uint64, now time.Time) (member.Signed, error) {
	own, err := s.own(t)
	if err != nil {
		return member.Signed{}, refusals.New(refusals.Internal, "%w", err)
	}
	if old, ok := t.Cert(req.Node); ok {
		if t.RenewDue(req.Node, now) { // it comes back after a long time
			cert, err := s.recertify(t, own, old, serial, now)
			if err != nil {
				return member.Signed{}, refusals.New(refusals.Internal, "certify %s again: %w", req.Node, err)
			}
			return cert, nil
		}
		cert, _, _ := t.Proof(req.Node) // it has one: see above
		return cert, nil
	}
	c := member.Cert{
		Cluster: s.o.Identity.Cluster, Node: req.Node, IDPub: req.IDPub, Serial: serial,
		// Never before this host's certificate, even if its clock is behind.
		Issued: max(now.Unix(), own.Issued),
	}
	root, err := s.root()
	if err != nil {
		return member.Signed{}, refusals.New(refusals.Internal, "%w", err)
	}
	key := s.o.Identity.IDKey()
	if slice, free := s.promotion(t, root); free {
		key, c.Slice = root, slice
	} else {
		c.Slice, c.Expires = own.Slice, time.Unix(c.Issued, 0).Add(s.o.CertLife).Unix()
	}
	cert, err := certify(key, c, t.Taken)
	if err != nil {
		return member.Signed{}, refusals.New(refusals.Internal, "certify %s: %w", req.Node, err)
	}
	return cert, nil
}

// root returns the root key, nil if it is not on this host.
func (s *Sponsor) root() (ed25519.PrivateKey, error) {
	if s.o.RootKey == nil {
		return nil, nil
	}
	root, err := s.o.RootKey()
	if durable.IsDamaged(err) {
		s.log.Error().Err(err).Msg("going on as if the root key were not on this host")
		return nil, nil
	}
	return root, err
}

// promotion returns the slice of the next sponsor, if there is to be one.
func (s *Sponsor) promotion(t *member.Table, root ed25519.PrivateKey) (netip.Prefix, bool) {
	if root == nil || t.Sponsors() >= maxSponsors {
		return netip.Prefix{}, false
	}
	return t.FreeSlice(s.o.Identity.Network)
}

// until says how long the name of a host that is gone stays taken.
func until(r member.Retired) string {
	if r.Until.IsZero() {
		return "for ever"
	}
	return "until " + r.Until.Format(time.DateOnly)
}

// answer encodes what a new host needs: its certificate, the sponsors' records
// and the cluster's facts.
func (s *Sponsor) answer(t *member.Table, cert member.Signed) ([]byte, error) {
	id := s.o.Identity
	self, ok := t.Member(id.Node)
	if !ok {
		return nil, refusals.New(refusals.Internal, "%s has no announcement of its own", id.Node)
	}
	a := answer{
		Success: true, Node: id.Node, WGPub: id.WGPub, Endpoint: first(self.Endpoints), TunnelIP: self.IP4,
		Peers:       []wire.PeerHint{},
		ClusterName: id.ClusterName, Network: id.Network, Secret: id.ClusterSecret(),
		Cert: cert, Records: t.Chain(id.Node), Digest: t.Digest(),
	}
	for _, m := range t.Members() {
		if len(a.Peers) < wire.MaxKnownPeers && m.Node != id.Node {
			a.Peers = append(a.Peers, wire.PeerHint{Node: m.Node, WGPub: [32]byte(m.WGPub), Endpoint: first(m.Endpoints), TunnelIP: m.IP4})
		}
	}
	body, err := json.Marshal(a)
	if err != nil {
		return nil, refusals.New(refusals.Internal, "encode answer: %w", err)
	}
	if len(body) > maxAnswer {
		return nil, refusals.New(refusals.Internal, "answer of %d bytes", len(body))
	}
	return body, nil
}

func first(e []netip.AddrPort) netip.AddrPort {
	if len(e) == 0 {
		return netip.AddrPort{}
	}
	return e[0]
}
