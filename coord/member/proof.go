package member

import (
	"bytes"
	"encoding/hex"
	"net/netip"
)

// Proves reports whether e, which another host sent, is what it says: two
// records with valid signatures of this cluster, the first of them about
// e.Node, that contradict each other.
func (d *Directory) Proves(e Evidence) bool {
	if e.Kept.Equal(e.Other) || bytes.Equal(e.Kept.Bytes, e.Other.Bytes) {
		return false
	}
	if a, err := ParseAnn(e.Kept); err == nil {
		b, err := ParseAnn(e.Other)
		return err == nil && d.provesAnns(e, a, b)
	}
	a, err := ParseCert(e.Kept)
	if err != nil {
		return false
	}
	b, err := ParseCert(e.Other)
	return err == nil && e.Word() == WhyConflict && a.Node == e.Node && d.issued(a, e.Kept) && d.issued(b, e.Other) && disputes(a, b)
}

func (d *Directory) provesAnns(e Evidence, a, b Ann) bool {
	if node, ok := d.nodeOf(a.IDPub); !ok || node != e.Node {
		return false
	}
	if _, ok := d.nodeOf(b.IDPub); !ok || !e.Kept.signedBy(annDomain, a.IDPub) || !e.Other.signedBy(annDomain, b.IDPub) {
		return false
	}
	same := a.IDPub.Equal(b.IDPub)
	if e.Word() == WhyForked {
		return same && a.Epoch == b.Epoch
	}
	return !same && (a.WGPub == b.WGPub || a.Next == b.WGPub || a.WGPub == b.Next || (a.Next == b.Next && a.Next != [32]byte{}))
}

// disputes reports whether a and b cannot both be true.
func disputes(a, b Cert) bool {
	if a.IDPub.Equal(b.IDPub) {
		return a.Node != b.Node
	}
	return a.Node == b.Node || (a.IP4 == b.IP4 && a.IP4 != netip.Addr{})
}

// About names what e is about: the kind, and the keys that contradict each
// other, whichever was kept. Whoever signs a thousand contradictions signs
// them all about the same.
func (e Evidence) About() string {
	d := e.dispute()
	if bytes.Compare(d.a[:], d.b[:]) > 0 {
		d.a, d.b = d.b, d.a
	}
	return d.why + " " + hex.EncodeToString(d.a[:]) + " " + hex.EncodeToString(d.b[:])
}
