package join

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
)

// Renew certifies a member again and returns the certificate, which the caller
// merges and spreads. It keeps node id, key and address, also where another
// sponsor gave them; only a host that lost its address to another key gets a
// new one. Where the root key lies, and while there are fewer than three
// sponsors, it makes the member one. A certificate that is not due is returned
// as it is, so that asking often costs little. The error wraps ErrNoMember if
// there is no such member, and ErrNeedRoot for a sponsor that needs another
// address where the root key is not.
func (s *Sponsor) Renew(ctx context.Context, node cluster.NodeID) (member.Signed, error) {
	rec, err := s.renew(ctx, node)
	if err != nil {
		return member.Signed{}, fmt.Errorf("renew %s: %w", node, err)
	}
	return rec, nil
}

func (s *Sponsor) renew(ctx context.Context, node cluster.NodeID) (member.Signed, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return member.Signed{}, err
	}
	defer leave()
	now := s.o.Wall()
	t := s.table(now)
	own, err := s.own(t)
	if err != nil {
		return member.Signed{}, err
	}
	old, ok := t.Cert(node)
	if !ok {
		return member.Signed{}, ErrNoMember
	}
	if !t.RenewDue(node, now) {
		rec, _, _ := t.Proof(node)
		return rec, nil
	}
	serial := s.o.Invites.nextSerial()
	rec, err := s.recertify(t, own, old, serial, now)
	if err != nil {
		return member.Signed{}, err
	}
	if _, err := t.AddCert(rec, now); err != nil {
		return member.Signed{}, err
	}
	if err := s.o.Invites.issue(serial); err != nil {
		return member.Signed{}, err
	}
	c, err := member.ParseCert(rec)
	if err != nil {
		return member.Signed{}, err
	}
	s.log.Info().Str("peer", string(node)).Stringer("addr", c.IP4).Bool("sponsor", c.Sponsor()).Msg("certificate renewed")
	return rec, nil
}

// Promote makes this host itself a sponsor by the root key, at its address and
// however many sponsors there are: that is how a cluster which lost them gets
// one again. The caller merges and spreads the certificate. A sponsor's is
// returned as it is. The error wraps ErrNeedRoot where the root key is not, and
// ErrNoSlice if other sponsors own all addresses.
func (s *Sponsor) Promote(ctx context.Context) (member.Signed, error) {
	rec, err := s.promote(ctx)
	if err != nil {
		return member.Signed{}, fmt.Errorf("make %s a sponsor: %w", s.o.Identity.Node, err)
	}
	return rec, nil
}

func (s *Sponsor) promote(ctx context.Context) (member.Signed, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return member.Signed{}, err
	}
	defer leave()
	now := s.o.Wall()
	t := s.table(now)
	if _, err := s.own(t); err == nil {
		rec, _, _ := t.Proof(s.o.Identity.Node)
		return rec, nil
	}
	root, err := s.root()
	if err != nil {
		return member.Signed{}, err
	}
	old, ok := t.Cert(s.o.Identity.Node)
	switch {
	case root == nil:
		return member.Signed{}, ErrNeedRoot
	case !ok || !old.IDPub.Equal(s.o.Identity.IDPub):
		return member.Signed{}, ErrNoMember
	}
	serial := s.o.Invites.nextSerial()
	c, _ := successor(t, old, serial, now.Unix())
	if c.Slice, ok = t.FreeSlice(s.o.Identity.Network); !ok {
		return member.Signed{}, ErrNoSlice
	}
	rec, err := certify(root, c, t.Taken)
	if err != nil {
		return member.Signed{}, err
	}
	if _, err := t.AddCert(rec, now); err != nil {
		return member.Signed{}, err
	}
	return rec, s.o.Invites.issue(serial)
}

// successor begins the certificate that follows old: issued then or, even if
// this clock is behind, after old. The address of a host that lost its own to
// another key is left open.
func successor(t *member.Table, old member.Cert, serial uint64, issued int64) (c member.Cert, lost bool) {
	c = member.Cert{
		Cluster: old.Cluster, Node: old.Node, IDPub: old.IDPub, IP4: old.IP4, Since: old.Since, Serial: serial,
		Issued: max(issued, old.Issued+1),
	}
	if lost = t.Lost(old.Node); lost {
		c.IP4, c.Since = netip.Addr{}, c.Issued
	}
	return c, lost
}

// recertify signs the successor of the certificate old.
func (s *Sponsor) recertify(t *member.Table, own, old member.Cert, serial uint64, now time.Time) (member.Signed, error) {
	c, lost := successor(t, old, serial, max(now.Unix(), own.Issued))
	key := s.o.Identity.IDKey()
	root, err := s.root()
	if err != nil {
		return member.Signed{}, err
	}
	slice, promoted := s.promotion(t, root)
	switch {
	case old.Sponsor() && root == nil:
		return member.Signed{}, ErrNeedRoot
	case old.Sponsor():
		key, c.Slice = root, old.Slice
	case promoted:
		key, c.Slice = root, slice
	default:
		c.Slice, c.Expires = own.Slice, time.Unix(c.Issued, 0).Add(s.o.CertLife).Unix()
		c.Renewed = !lost && (!own.Slice.Contains(c.IP4) || c.Since < own.Issued)
	}
	return certify(key, c, t.Taken)
}

// Revoke signs the end of a member's key and returns the revocation, which
// counts from when the caller merges and spreads it. Only the root key ends a sponsor's
// (ErrNeedRoot); where it lies this host need not be a sponsor. A member that is
// gone already is no error: its revocation is returned, or for a sponsor that
// left, and whose key may yet be stolen, the root key's. The error wraps
// ErrNoMember if there never was one.
func (s *Sponsor) Revoke(ctx context.Context, node cluster.NodeID, reason string) (member.Signed, error) {
	rec, err := s.revoke(ctx, node, reason)
	if err != nil {
		return member.Signed{}, fmt.Errorf("revoke %s: %w", node, err)
	}
	return rec, nil
}

func (s *Sponsor) revoke(ctx context.Context, node cluster.NodeID, reason string) (member.Signed, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return member.Signed{}, err
	}
	defer leave()
	now := s.o.Wall()
	// A table of its own: who asked may yet drop the revocation.
	t := member.NewTable(s.o.Identity.Verifier())
	_, _ = t.Restore(s.o.Records(), now) // see table
	root, err := s.root()
	if err != nil {
		return member.Signed{}, err
	}
	if _, err := s.own(t); err != nil && root == nil {
		return member.Signed{}, err
	}
	if node == s.o.Identity.Node {
		return member.Signed{}, errors.New("a host ends its own key by leaving")
	}
	c, ok := t.Cert(node)
	if !ok {
		rec, gone := t.Revocation(node)
		if !gone {
			return member.Signed{}, ErrNoMember
		}
		if c, ok = leftSponsor(t, node); !ok || root == nil {
			return rec, nil
		}
	}
	key := s.o.Identity.IDKey()
	switch {
	case root != nil:
		key = root
	case c.Sponsor(), c.Expires == 0:
		return member.Signed{}, ErrNeedRoot
	}
	if len(reason) > member.MaxReasonLen {
		reason = reason[:member.MaxReasonLen]
	}
	rec, err := member.Revoke{
		Cluster: c.Cluster, IDPub: c.IDPub, Reason: reason, Issued: now.Unix(), Expires: member.RevokeUntil(c),
		Issuer: publicOf(key),
	}.Sign(key)
	if err != nil {
		return member.Signed{}, err
	}
	if _, err := t.AddRevoke(rec, now); err != nil {
		return member.Signed{}, err
	}
	s.log.Info().Str("peer", string(node)).Str("reason", reason).Msg("revocation signed")
	return rec, nil
}

// leftSponsor returns the certificate of a sponsor that ended its own key.
func leftSponsor(t *member.Table, node cluster.NodeID) (member.Cert, bool) {
	id, _ := t.KeyOf(node)
	for _, r := range t.Retired() {
		if r.Left && r.Cert.Sponsor() && r.Cert.IDPub.Equal(id) {
			return r.Cert, true
		}
	}
	return member.Cert{}, false
}

// Leave signs the end of this host's own key, whose certificate is cert.
func Leave(id *Identity, cert member.Cert, now time.Time) (member.Signed, error) {
	rec, err := member.Revoke{
		Cluster: id.Cluster, IDPub: id.IDPub, Reason: member.ReasonLeft, Issued: now.Unix(),
		Expires: member.RevokeUntil(cert), Issuer: id.IDPub,
	}.Sign(id.IDKey())
	if err != nil {
		return member.Signed{}, fmt.Errorf("leave: %w", err)
	}
	return rec, nil
}
