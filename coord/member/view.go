package member

import (
	"crypto/ed25519"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Members returns the hosts that are certified and announced, by node id. One
// that lost its IPv4 address to another key has none until it is renewed; one
// that announced the WireGuard key of a better claim is not among them.
func (d *Directory) Members() []cluster.Member {
	out := make([]cluster.Member, 0, len(d.byID))
	for _, e := range d.byID {
		if e.shown() {
			out = append(out, d.member(e))
		}
	}
	slices.SortFunc(out, func(a, b cluster.Member) int { return strings.Compare(string(a.Node), string(b.Node)) })
	return out
}

// Member returns the member with node id n.
func (d *Directory) Member(n cluster.NodeID) (cluster.Member, bool) { return d.complete(d.byNode[n]) }

// Announced is like Member, also for a host that is none because another has the
// better claim to its WireGuard key: the host itself goes on with it until it
// has another.
func (d *Directory) Announced(n cluster.NodeID) (cluster.Member, bool) {
	e := d.byID[d.byNode[n]]
	if e == nil || e.ann == nil {
		return cluster.Member{}, false
	}
	return d.member(e), true
}

// MemberByKey returns the member with identity key id.
func (d *Directory) MemberByKey(id ed25519.PublicKey) (cluster.Member, bool) {
	if len(id) != ed25519.PublicKeySize {
		return cluster.Member{}, false
	}
	return d.complete(key(id))
}

// Cert returns the certificate of node id n, whether announced or not.
func (d *Directory) Cert(n cluster.NodeID) (Cert, bool) {
	e := d.byID[d.byNode[n]]
	if e == nil {
		return Cert{}, false
	}
	return e.cert, true
}

// Proof returns the records of node id n; ann is zero if it has none.
func (d *Directory) Proof(n cluster.NodeID) (cert, ann Signed, ok bool) {
	e := d.byID[d.byNode[n]]
	if e == nil {
		return Signed{}, Signed{}, false
	}
	return e.rec, e.annRec, true
}

// Chain returns the records that a newcomer needs to verify n's certificate
// and to reach n: the sponsors' and n's own.
func (d *Directory) Chain(n cluster.NodeID) Records {
	var rs Records
	for _, e := range d.sorted() {
		if !e.cert.Sponsor() && e.cert.Node != n {
			continue
		}
		cert, ann := d.travels(e)
		if !cert {
			continue
		}
		rs.Certs = append(rs.Certs, e.rec)
		if ann {
			rs.Anns = append(rs.Anns, e.annRec)
		}
	}
	return rs
}

// Revoked reports whether the identity key was revoked.
func (d *Directory) Revoked(id ed25519.PublicKey) bool {
	return len(id) == ed25519.PublicKeySize && d.gone[key(id)] != nil
}

// Taken reports whether a certificate holds ip, be it of a revoked key.
func (d *Directory) Taken(ip netip.Addr) bool {
	_, ok := d.byIP[ip]
	return ok
}

// FreeSlice returns the first slice of network that no sponsor owns, if
// possible one that none ever owned.
func (d *Directory) FreeSlice(network netip.Prefix) (netip.Prefix, bool) {
	var used, retired []netip.Prefix
	for _, e := range d.byID {
		if e.cert.Sponsor() {
			used = append(used, e.cert.Slice)
		}
	}
	for _, g := range d.gone {
		if g.cert.Sponsor() {
			retired = append(retired, g.cert.Slice)
		}
	}
	all := Slices(network)
	for _, busy := range [][]netip.Prefix{slices.Concat(used, retired), used} {
		i := slices.IndexFunc(all, func(s netip.Prefix) bool { return !slices.ContainsFunc(busy, s.Overlaps) })
		if i >= 0 {
			return all[i], true
		}
	}
	return netip.Prefix{}, false
}

// RenewDue reports whether n should ask a sponsor for a new certificate: two
// thirds of its life are over, its issuer is no longer a sponsor, or another
// key has the better claim to its IPv4 address.
func (d *Directory) RenewDue(n cluster.NodeID, now time.Time) bool {
	e := d.byID[d.byNode[n]]
	switch {
	case e == nil:
		return false
	case e.noIP4:
		return true
	case e.cert.Expires == 0:
		return false
	}
	return !now.Before(e.cert.RenewAt()) || (!d.rooted(&e.claim) && d.sponsor(e.cert.Issuer) == nil)
}

// Lost reports whether n is a member without IPv4 address, because another key
// has the better claim to the one in its certificate.
func (d *Directory) Lost(n cluster.NodeID) bool {
	e := d.byID[d.byNode[n]]
	return e != nil && e.noIP4
}

// KeyOf returns the identity key that has the node id n, be it revoked.
func (d *Directory) KeyOf(n cluster.NodeID) (ed25519.PublicKey, bool) {
	id, ok := d.byNode[n]
	if !ok {
		return nil, false
	}
	return slices.Clone(id[:]), true
}

// Sponsors is the number of sponsors.
func (d *Directory) Sponsors() int {
	n := 0
	for _, e := range d.byID {
		if e.cert.Sponsor() {
			n++
		}
	}
	return n
}

func (d *Directory) complete(id key) (cluster.Member, bool) {
	e := d.byID[id]
	if e == nil || !e.shown() {
		return cluster.Member{}, false
	}
	return d.member(e), true
}

func (d *Directory) member(e *entry) cluster.Member {
	m := cluster.Member{
		Node:      e.cert.Node,
		IDPub:     slices.Clone([]byte(e.cert.IDPub)),
		IP4:       e.cert.IP4,
		IP6:       e.cert.IP6,
		Caps:      slices.Clone(e.cert.Caps),
		WGPub:     slices.Clone(e.ann.WGPub[:]),
		Epoch:     e.ann.Epoch,
		Zone:      e.ann.Zone,
		NAT:       e.ann.NAT,
		Priority:  e.ann.Priority,
		Witness:   e.ann.Witness,
		Endpoints: slices.Clone(e.ann.Endpoints),

		CertIssued:  e.cert.Issued,
		CertExpires: e.cert.Expires,
	}
	if d.next(e) {
		m.NextAt, m.NextWG = e.ann.NextAt, slices.Clone(e.ann.Next[:])
	}
	if !e.ann.Onion.IsZero() {
		m.Onion = e.ann.Onion.String()
	}
	if e.ann.OnionClient != [32]byte{} {
		m.OnionClient = slices.Clone(e.ann.OnionClient[:])
	}
	if e.noIP4 {
		m.IP4 = netip.Addr{}
	}
	return m
}
