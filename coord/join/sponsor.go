package join

import (
	"context"
	"crypto/ed25519"
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
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/coord/wire"
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
	o       SponsorOptions
	log     zerolog.Logger
	limit   *limiter
	results *prometheus.CounterVec
	// slot serialises all that signs: capacity 1, waited for until the
	// request's deadline.
	slot chan struct{}
	// known is all that this host knows of members, and what it signed itself
	// and Records may not show yet; owned by who has the slot.
	known *member.Table
}

// Results of a request; the label of a counter.
const (
	resultAdmitted = "admitted"
	resultAgain    = "again"
	resultRate     = "rate"
	resultRequest  = "request"  // not a well-formed request
	resultInvite   = "invite"   // unknown, revoked, expired, used up
	resultSecret   = "secret"   // secret not proven
	resultClock    = "clock"    // request_time outside the window
	resultKeys     = "keys"     // keys not proven
	resultConflict = "conflict" // node id or key belongs to another
	resultInternal = "internal" // store, hook, address space
)

// refusal is why a request failed; only the log and a counter tell it.
type refusal struct {
	result string
	err    error
}

func (r *refusal) Error() string { return r.result + ": " + r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(result, format string, args ...any) error {
	return &refusal{result: result, err: fmt.Errorf(format, args...)}
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
		o: o, log: o.Logger.With().Str("component", "join").Logger(), limit: newLimiter(), slot: make(chan struct{}, 1),
		known: member.NewTable(o.Identity.Verifier()),
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "skein_join_requests_total", Help: "Requests to be admitted, by result.",
		}, []string{"result"}),
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
	if _, err := s.own(t); err != nil && root == nil {
		return nil, fmt.Errorf("new sponsor: %w", err)
	}
	for _, r := range []string{
		resultAdmitted, resultAgain, resultRate, resultRequest, resultInvite, resultSecret,
		resultClock, resultKeys, resultConflict, resultInternal,
	} {
		s.results.WithLabelValues(r)
	}
	if o.Registerer != nil {
		if err := o.Registerer.Register(s.results); err != nil {
			return nil, fmt.Errorf("new sponsor: %w", err)
		}
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
	ctx, cancel := context.WithTimeout(r.Context(), exchangeTime)
	defer cancel()
	from := door.Source(r.RemoteAddr)
	now := s.o.Wall()
	by := try{from: from}
	if name, ok := strings.CutPrefix(r.URL.Path, door.PathPrefix); ok && from == (netip.Addr{}) {
		if _, known := s.o.Invites.get(name); known {
			by.invite = name
		}
	}
	done, ok := s.limit.take(by, now)
	if !ok {
		s.results.WithLabelValues(resultRate).Inc()
		door.NotFound(w)
		return
	}
	body, tag, err := s.serve(ctx, r, now)
	done(err != nil)
	if err != nil {
		result := resultInternal
		if ref, ok := errors.AsType[*refusal](err); ok {
			result = ref.result
		}
		s.results.WithLabelValues(result).Inc()
		// Not from, which stands for all that come by loopback or through Tor.
		s.log.Warn().Str("addr", r.RemoteAddr).Str("result", result).Err(err).Msg("join request refused")
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
		return nil, nil, refuse(resultRequest, "not a join request")
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	if err != nil || len(raw) > maxRequest {
		return nil, nil, refuse(resultRequest, "body unreadable or above %d bytes", maxRequest)
	}
	req, err := parseRequest(raw)
	if err != nil {
		return nil, nil, refuse(resultRequest, "%w", err)
	}
	id := s.o.Identity
	transcript := req.transcript(id.Cluster, id.IDPub, invite)
	inv, known := s.o.Invites.get(invite)
	secret := inv.Secret
	if !known {
		secret = make([]byte, token.SecretLen) // an unknown invite costs the same
	}
	proven := req.checkSecret(transcript, secret)
	switch {
	case !known:
		return nil, nil, refuse(resultInvite, "unknown invite")
	case !proven:
		return nil, nil, refuse(resultSecret, "secret of invite %s not proven", invite)
	case inv.Revoked || !now.Before(inv.Expires):
		return nil, nil, refuse(resultInvite, "invite %s is over", invite)
	}
	if age := now.Sub(time.Unix(req.RequestTime, 0)); age > requestPast || age < -requestAhead {
		return nil, nil, refuse(resultClock, "request of %s is %s old", req.Node, age.Truncate(time.Second))
	}
	if err := req.checkKeys(transcript, id.tokenKeys(now)); err != nil {
		return nil, nil, refuse(resultKeys, "request of %s: %w", req.Node, err)
	}
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, nil, refuse(resultInternal, "%w", err)
	}
	defer leave()
	body, err = s.admit(ctx, invite, req, now)
	if err != nil {
		return nil, nil, err
	}
	return body, answerMAC(secret, transcript, body), nil
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

// admit certifies an authenticated host, or finds what it was answered before.
// It runs in the slot.
func (s *Sponsor) admit(ctx context.Context, invite string, req *request, now time.Time) ([]byte, error) {
	inv, _ := s.o.Invites.get(invite) // again: this is the first look inside the slot
	u, again := inv.by(req.IDPub)
	if !again && len(inv.Spent) >= inv.Uses {
		return nil, refuse(resultInvite, "invite %s is used up, asked by %s", invite, req.Node)
	}
	t := s.table(now)
	if again {
		if u.Node != req.Node {
			return nil, refuse(resultConflict, "host was admitted as %s, now asks as %s", u.Node, req.Node)
		}
	} else {
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
		return nil, refuse(resultConflict, "%w", err)
	}
	if t.Revoked(req.IDPub) {
		return nil, refuse(resultConflict, "the key of %s was revoked: it must join with an empty state directory", req.Node)
	}
	if _, err := t.AddAnn(req.Ann, now); err != nil {
		return nil, refuse(resultConflict, "%w", err)
	}
	m, ok := t.MemberByKey(req.IDPub)
	if !ok {
		return nil, refuse(resultConflict, "%s lost its certificate", req.Node)
	}
	if !again {
		if err := s.o.Invites.spend(invite, u, s.o.Invites.nextSerial(), now); err != nil {
			return nil, refuse(resultInternal, "admit %s: %w", req.Node, err)
		}
	}
	a := Admission{Member: m, Cert: u.Cert, Ann: req.Ann, Invite: invite, Again: u.Told}
	if err := s.o.OnAdmit(ctx, a); err != nil {
		return nil, refuse(resultInternal, "admit %s: %w", req.Node, err)
	}
	if !u.Told {
		if err := s.o.Invites.told(invite, req.IDPub); err != nil {
			return nil, refuse(resultInternal, "admit %s: %w", req.Node, err)
		}
	}
	result := resultAdmitted
	if again {
		result = resultAgain
	}
	s.results.WithLabelValues(result).Inc()
	s.log.Info().Str("peer", string(m.Node)).Stringer("addr", m.IP4).Str("invite", invite).Bool("again", again).Msg("host admitted")
	return u.Answer, nil
}

// certify finds or signs the certificate of a new host.
func (s *Sponsor) certify(t *member.Table, req *request, serial uint64, now time.Time) (member.Signed, error) {
	own, err := s.own(t)
	if err != nil {
		return member.Signed{}, refuse(resultInternal, "%w", err)
	}
	if old, ok := t.Cert(req.Node); ok {
		if !old.IDPub.Equal(ed25519.PublicKey(req.IDPub)) {
			return member.Signed{}, refuse(resultConflict, "node id %s belongs to another host", req.Node)
		}
		if t.RenewDue(req.Node, now) { // it comes back after a long time
			cert, err := s.recertify(t, own, old, serial, now)
			if err != nil {
				return member.Signed{}, refuse(resultInternal, "certify %s again: %w", req.Node, err)
			}
			return cert, nil
		}
		cert, _, _ := t.Proof(req.Node) // it has one: see above
		return cert, nil
	}
	// The name of a host that is gone must not come to mean another key while
	// what it signed is still about: its events are verified by that key.
	for _, r := range t.Retired() {
		if r.Node == req.Node {
			return member.Signed{}, refuse(resultConflict, "node id %s belongs to a host that is gone, %s: the new host must choose another", req.Node, until(r))
		}
	}
	c := member.Cert{
		Cluster: s.o.Identity.Cluster, Node: req.Node, IDPub: req.IDPub, Serial: serial,
		// Never before this host's certificate, even if its clock is behind.
		Issued: max(now.Unix(), own.Issued),
	}
	root, err := s.root()
	if err != nil {
		return member.Signed{}, refuse(resultInternal, "%w", err)
	}
	key := s.o.Identity.IDKey()
	if slice, free := s.promotion(t, root); free {
		key, c.Slice = root, slice
	} else {
		c.Slice, c.Expires = own.Slice, time.Unix(c.Issued, 0).Add(s.o.CertLife).Unix()
	}
	cert, err := certify(key, c, t.Taken)
	if err != nil {
		return member.Signed{}, refuse(resultInternal, "certify %s: %w", req.Node, err)
	}
	return cert, nil
}

// root returns the root key, nil if it is not on this host.
func (s *Sponsor) root() (ed25519.PrivateKey, error) {
	if s.o.RootKey == nil {
		return nil, nil
	}
	root, err := s.o.RootKey()
	if err != nil || root == nil {
		return nil, err
	}
	return root, s.o.Identity.checkRoot(root)
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
		return nil, refuse(resultInternal, "%s has no announcement of its own", id.Node)
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
		return nil, refuse(resultInternal, "encode answer: %w", err)
	}
	if len(body) > maxAnswer {
		return nil, refuse(resultInternal, "answer of %d bytes", len(body))
	}
	return body, nil
}

func first(e []netip.AddrPort) netip.AddrPort {
	if len(e) == 0 {
		return netip.AddrPort{}
	}
	return e[0]
}
