package member

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// trust holds the verified records, and decides what each is worth beside the
// others: whose signature counts, who has the better claim, what is revoked.
type trust struct {
	v    Verifier
	byID map[key]*entry // certified keys
	gone map[key]*tomb  // revoked keys
	// Who has a node id, an address or a WireGuard key: the best claim of a
	// certified key, else a revoked one's.
	byNode map[cluster.NodeID]key
	byIP   map[netip.Addr]key
	byWG   map[[32]byte]key
	lost   int // entries without their IPv4 address

	evidence []Evidence
	order    []*entry // cache of sorted; nil if stale
}

// checkCert checks everything about a certificate but dates and rivals.
func (t *trust) checkCert(c Cert, s Signed, retired bool) error {
	if c.Cluster != t.v.Cluster {
		return ErrCluster
	}
	if c.Issuer.Equal(t.v.RootPub) {
		if !s.signedBy(certDomain, t.v.RootPub) {
			return ErrSignature
		}
		return nil
	}
	sponsor := t.sponsor(c.Issuer)
	if sponsor == nil && retired {
		if g := t.gone[key(c.Issuer)]; g != nil && g.cert.Sponsor() {
			sponsor = &g.cert
		}
	}
	switch {
	case sponsor == nil:
		return ErrNoIssuer
	case !s.signedBy(certDomain, c.Issuer):
		return ErrSignature
	case c.Sponsor():
		return fmt.Errorf("a sponsor cannot make sponsors: %w", ErrNoIssuer)
	case !c.Renewed && !sponsor.Slice.Contains(c.IP4):
		return ErrSlice
	case c.Expires == 0:
		return fmt.Errorf("no expiry: %w", ErrFormat)
	case c.Expires-c.Issued > int64(MaxCertLife/time.Second):
		return fmt.Errorf("valid from %d to %d: %w", c.Issued, c.Expires, ErrFormat)
	case c.Issued < sponsor.Issued, c.Since < sponsor.Issued && !c.Renewed:
		return fmt.Errorf("issued before its sponsor was certified: %w", ErrFormat)
	}
	return nil
}

// sponsor returns the certificate of a key that may certify members now.
func (t *trust) sponsor(pub ed25519.PublicKey) *Cert {
	if e := t.byID[key(pub)]; e != nil && e.cert.Sponsor() && t.rooted(&e.claim) {
		return &e.cert
	}
	return nil
}

// issued reports whether whom c names as its issuer signed it, and is or was
// one who may.
func (t *trust) issued(c Cert, s Signed) bool {
	if c.Cluster != t.v.Cluster || !s.signedBy(certDomain, c.Issuer) {
		return false
	}
	if c.Issuer.Equal(t.v.RootPub) || t.sponsor(c.Issuer) != nil {
		return true
	}
	g := t.gone[key(c.Issuer)]
	return g != nil && g.cert.Sponsor()
}

// nodeOf is the node id of a key that is or was certified.
func (t *trust) nodeOf(pub ed25519.PublicKey) (cluster.NodeID, bool) {
	if e := t.byID[key(pub)]; e != nil {
		return e.cert.Node, true
	}
	if g := t.gone[key(pub)]; g != nil && !g.rec.IsZero() {
		return g.cert.Node, true
	}
	return "", false
}

// stands reports whether others would accept c's certificate.
func (t *trust) stands(c *claim) bool {
	return !c.late && (t.rooted(c) || t.sponsor(c.cert.Issuer) != nil)
}

func (t *trust) rooted(c *claim) bool { return c.cert.Issuer.Equal(t.v.RootPub) }

// outranks settles which of two keys has a node id: the one whose certificate
// others would accept, then the root-signed one, then the older claim, then
// the lower key, then the lower bytes. A renewal changes none of that, but that
// a claim that another sponsor renewed is at most as old as that sponsor: no
// sponsor's key takes what was given before it became one.
func (t *trust) outranks(a, b *claim) bool {
	if sa, sb := t.stands(a), t.stands(b); sa != sb {
		return sa
	}
	if ra, rb := t.rooted(a), t.rooted(b); ra != rb {
		return ra
	}
	return cmp.Or(cmp.Compare(t.since(a), t.since(b)), bytes.Compare(a.id[:], b.id[:]),
		bytes.Compare(a.rec.Bytes, b.rec.Bytes)) < 0
}

// since is how old a claim is.
func (t *trust) since(c *claim) int64 {
	if !c.cert.Renewed {
		return c.cert.Since
	}
	if e := t.byID[key(c.cert.Issuer)]; e != nil {
		return max(c.cert.Since, e.cert.Issued)
	}
	if g := t.gone[key(c.cert.Issuer)]; g != nil && !g.rec.IsZero() {
		return max(c.cert.Since, g.cert.Issued)
	}
	return c.cert.Since
}

// nearer settles which of two keys has an address: like outranks, but first
// comes a certificate from inside the issuer's slice.
func (t *trust) nearer(a, b *claim) bool {
	if a.cert.Renewed != b.cert.Renewed && t.stands(a) == t.stands(b) && t.rooted(a) == t.rooted(b) {
		return b.cert.Renewed
	}
	return t.outranks(a, b)
}

// newer settles which of two certificates of one key and node id is kept: one
// that others would accept, then the root-signed one, then one whose issuer the
// root key did not end, then the later, then the higher serial.
func (t *trust) newer(a, b *claim) bool {
	if sa, sb := t.stands(a), t.stands(b); sa != sb {
		return sa
	}
	if ra, rb := t.rooted(a), t.rooted(b); ra != rb {
		return ra
	}
	if ea, eb := t.rootEnded(a.cert.Issuer), t.rootEnded(b.cert.Issuer); ea != eb {
		return eb
	}
	return cmp.Or(cmp.Compare(a.cert.Issued, b.cert.Issued), cmp.Compare(a.cert.Serial, b.cert.Serial),
		bytes.Compare(a.rec.Bytes, b.rec.Bytes)) > 0
}

// byRoot reports whether the root key signed r.
func (t *trust) byRoot(r Revoke) bool { return r.Issuer.Equal(t.v.RootPub) }

// rootEnded reports whether the root key revoked pub.
func (t *trust) rootEnded(pub ed25519.PublicKey) bool {
	g := t.gone[key(pub)]
	return g != nil && t.byRoot(g.rev)
}

// mute reports whether a sponsor signed g that the root key ended: nobody can
// tell whether the sponsor did, or a thief afterwards. It binds where it is
// known, until a certificate of its key comes that stands, and is not told.
func (t *trust) mute(g *tomb) bool {
	return !t.byRoot(g.rev) && !g.rev.Left() && t.rootEnded(g.rev.Issuer)
}

// spreads reports whether others are told of g. They do not accept the leave of a
// key that they do not know from a sponsor that the root key ended.
func (t *trust) spreads(g *tomb) bool {
	return !g.over && !t.mute(g) && (!g.rev.Left() || g.rec.IsZero() || !t.rootEnded(g.cert.Issuer))
}

// binds reports whether r replaces the revocation of g: the root key's comes
// before the others, mute ones last, then what binds for longer.
func (t *trust) binds(r Revoke, g *tomb) bool {
	if a, b := t.byRoot(r), t.byRoot(g.rev); a != b {
		return a
	}
	if a, b := t.mute(&tomb{rev: r}), t.mute(g); a != b {
		return b
	}
	return outlasts(r, g.rev)
}

// void reports whether the revocation g cannot stand against the certificate
// c: that of a sponsor, which only the root key and itself end, or one that
// stands against a mute revocation.
func (t *trust) void(g *tomb, c *claim) bool {
	return (c.cert.Sponsor() && !t.byRoot(g.rev) && !g.rev.Left()) || (t.mute(g) && t.stands(c))
}

func (t *trust) checkRevoke(r Revoke, s, cert Signed, dated bool) error {
	if r.Cluster != t.v.Cluster {
		return ErrCluster
	}
	e, g := t.byID[key(r.IDPub)], t.gone[key(r.IDPub)]
	switch {
	case r.Issuer.Equal(t.v.RootPub):
	case !r.Left() && (e != nil && e.cert.Sponsor() || g != nil && g.cert.Sponsor() || !t.mayRevoke(r, dated)):
		return ErrNoIssuer
	case !r.Left() && (r.Expires == 0 || r.Expires-r.Issued > int64(maxRevokeLife/time.Second)):
		return fmt.Errorf("binds from %d to %d: %w", r.Issued, r.Expires, ErrFormat)
	case e == nil && (g == nil || g.rec.IsZero()) && !t.certifies(cert, r, dated):
		// Else anyone could fill the table with keys that never were a host's.
		return ErrNoCert
	}
	if !s.signedBy(revokeDomain, r.Issuer) {
		return ErrSignature
	}
	return nil
}

// certifies reports whether cert is a genuine certificate of r's key that r may
// end, be it one that lost against another.
func (t *trust) certifies(cert Signed, r Revoke, dated bool) bool {
	c, err := ParseCert(cert)
	if err != nil || !c.IDPub.Equal(r.IDPub) || t.checkCert(c, cert, true) != nil {
		return false
	}
	if r.Left() {
		return !dated || !t.rootEnded(c.Issuer)
	}
	return !c.Sponsor()
}

// mayRevoke reports whether r's issuer is a sponsor, or was one when it signed,
// give or take what clocks differ: whom it removed must not return because the
// sponsor has left since. The date of one that the root key ended proves
// nothing: only what this host knew before counts.
func (t *trust) mayRevoke(r Revoke, dated bool) bool {
	if t.sponsor(r.Issuer) != nil {
		return true
	}
	g := t.gone[key(r.Issuer)]
	if t.rootEnded(r.Issuer) {
		return !dated && g.cert.Sponsor()
	}
	return g != nil && g.cert.Sponsor() && r.Issued <= g.rev.Issued+int64(maxAhead/time.Second)
}

// next reports whether e's next WireGuard key is told: not if another host has
// it, or has the better claim to it as its own next one.
func (t *trust) next(e *entry) bool {
	if e.ann.NextAt == 0 || t.byID[t.byWG[e.ann.Next]] != nil {
		return false
	}
	for _, x := range t.byID {
		if x != e && x.ann != nil && x.ann.NextAt != 0 && x.ann.Next == e.ann.Next && t.outranks(&x.claim, &e.claim) {
			return false
		}
	}
	return true
}

// sorted returns the entries, sponsors first, then by key: each record comes
// after the one that it depends on. The caller must not change the slice.
func (t *trust) sorted() []*entry {
	if t.order != nil {
		return t.order
	}
	out := make([]*entry, 0, len(t.byID))
	for _, e := range t.byID {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *entry) int {
		if sa, sb := a.cert.Sponsor(), b.cert.Sponsor(); sa != sb {
			if sa {
				return -1
			}
			return 1
		}
		return bytes.Compare(a.id[:], b.id[:])
	})
	t.order = out
	return out
}

func (t *trust) sortedTombs() []*tomb {
	out := make([]*tomb, 0, len(t.gone))
	for _, g := range t.gone {
		out = append(out, g)
	}
	slices.SortFunc(out, func(a, b *tomb) int { return bytes.Compare(a.id[:], b.id[:]) })
	return out
}
