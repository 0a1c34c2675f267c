package member

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Records is a set of records as it travels and is kept. Sponsors' certificates
// come before those that they signed.
type Records struct {
	Revokes []Signed `json:"revokes"`
	Certs   []Signed `json:"certs"`
	Anns    []Signed `json:"anns"`
}

// MaxRecordsBytes bounds the JSON form of Records.
const MaxRecordsBytes = 3 * MaxMembers * 800

// Empty reports whether there is no record in rs.
func (rs Records) Empty() bool { return len(rs.Revokes)+len(rs.Certs)+len(rs.Anns) == 0 }

// Item says which records of one key a host holds.
type Item struct {
	ID      []byte `json:"id"`   // first 16 bytes of the identity key
	Cert    []byte `json:"cert"` // first 8 bytes of the certificate's SHA-256
	Epoch   uint64 `json:"epoch"`
	Revoked bool   `json:"revoked,omitempty"`
}

// AddAll merges rs, whatever it holds: records that are refused do not stop the
// others. The error joins the refusals.
func (t *Table) AddAll(rs Records, now time.Time) (Change, error) { return t.addAll(rs, now, true) }

// Restore merges records that this host had verified and written down before:
// like AddAll, but a record that expired meanwhile is still accepted, since an
// expired certificate keeps existing peers.
func (t *Table) Restore(rs Records, now time.Time) (Change, error) { return t.addAll(rs, now, false) }

func (t *Table) addAll(rs Records, now time.Time, dated bool) (Change, error) {
	if len(rs.Revokes) > MaxMembers || len(rs.Certs) > MaxMembers || len(rs.Anns) > MaxMembers {
		return Change{}, fmt.Errorf("%d revokes, %d certs, %d anns: %w", len(rs.Revokes), len(rs.Certs), len(rs.Anns), ErrFull)
	}
	var all Change
	var errs []error
	add := func(ch Change, err error) {
		all = all.merge(ch)
		if err != nil {
			errs = append(errs, err)
		}
	}
	// Sponsors come first, so that what they signed can be checked, then
	// revocations, so that a revoked key never appears.
	var rest []Signed
	for _, s := range rs.Certs {
		if c, err := ParseCert(s); err == nil && c.Sponsor() {
			add(t.addCert(s, now, dated))
		} else {
			rest = append(rest, s)
		}
	}
	for _, s := range rs.Revokes {
		add(t.AddRevoke(s, now))
	}
	for _, s := range rest {
		add(t.addCert(s, now, dated))
	}
	for _, s := range rs.Anns {
		add(t.addAnn(s, now, dated))
	}
	return all.sorted(), errors.Join(errs...)
}

// Records returns everything that t holds.
func (t *Table) Records() Records { return t.Missing(nil) }

// Summary says which records t holds, for another host's Missing.
func (t *Table) Summary() []Item {
	out := make([]Item, 0, len(t.byID)+len(t.revoked))
	for _, e := range t.sorted() {
		out = append(out, Item{ID: e.id[:16], Cert: shortHash(e.certRec), Epoch: e.epoch()})
	}
	for _, id := range t.sortedRevoked() {
		out = append(out, Item{ID: id[:16], Revoked: true})
	}
	return out
}

// Missing returns the records of t that a host with summary have lacks or has
// older.
func (t *Table) Missing(have []Item) Records {
	type short [16]byte
	known := make(map[short]Item, len(have))
	for _, it := range have {
		if len(it.ID) == len(short{}) {
			known[short(it.ID)] = it
		}
	}
	var rs Records
	for _, id := range t.sortedRevoked() {
		if !known[short(id[:16])].Revoked {
			rs.Revokes = append(rs.Revokes, t.revoked[id])
		}
	}
	for _, e := range t.sorted() {
		it := known[short(e.id[:16])]
		if it.Revoked {
			continue
		}
		if !bytes.Equal(it.Cert, shortHash(e.certRec)) {
			rs.Certs = append(rs.Certs, e.certRec)
		}
		if e.ann != nil && it.Epoch < e.ann.Epoch {
			rs.Anns = append(rs.Anns, e.annRec)
		}
	}
	return rs
}

func shortHash(s Signed) []byte {
	h := sha256.Sum256(s.Bytes)
	return h[:8]
}

// Members returns the hosts that are certified and announced, by node id.
func (t *Table) Members() []cluster.Member {
	out := make([]cluster.Member, 0, len(t.byID))
	for _, e := range t.byID {
		if e.ann != nil {
			out = append(out, e.member())
		}
	}
	slices.SortFunc(out, func(a, b cluster.Member) int { return strings.Compare(string(a.Node), string(b.Node)) })
	return out
}

// Member returns the member with node id n.
func (t *Table) Member(n cluster.NodeID) (cluster.Member, bool) { return t.complete(t.byNode[n]) }

// MemberByKey returns the member with identity key id.
func (t *Table) MemberByKey(id ed25519.PublicKey) (cluster.Member, bool) {
	if len(id) != ed25519.PublicKeySize {
		return cluster.Member{}, false
	}
	return t.complete(key(id))
}

// MemberByIP returns the member with mesh address ip, of either family.
func (t *Table) MemberByIP(ip netip.Addr) (cluster.Member, bool) {
	if id, ok := t.byIP[ip.Unmap()]; ok {
		return t.complete(id)
	}
	for id, e := range t.byID {
		if e.cert.IP6 == ip {
			return t.complete(id)
		}
	}
	return cluster.Member{}, false
}

// Cert returns the certificate of node id n, whether announced or not.
func (t *Table) Cert(n cluster.NodeID) (Cert, bool) {
	id, ok := t.byNode[n]
	if !ok {
		return Cert{}, false
	}
	return t.byID[id].cert, true
}

// Proof returns the records of node id n; ann is zero if it has none.
func (t *Table) Proof(n cluster.NodeID) (cert, ann Signed, ok bool) {
	id, ok := t.byNode[n]
	if !ok {
		return Signed{}, Signed{}, false
	}
	return t.byID[id].certRec, t.byID[id].annRec, true
}

// Chain returns the records that a newcomer needs to verify n's certificate
// and to reach n: the sponsors' and n's own.
func (t *Table) Chain(n cluster.NodeID) Records {
	var rs Records
	for _, e := range t.sorted() {
		if !e.cert.Sponsor() && e.cert.Node != n {
			continue
		}
		rs.Certs = append(rs.Certs, e.certRec)
		if e.ann != nil {
			rs.Anns = append(rs.Anns, e.annRec)
		}
	}
	return rs
}

// Revoked reports whether the identity key was revoked.
func (t *Table) Revoked(id ed25519.PublicKey) bool {
	return len(id) == ed25519.PublicKeySize && t.revoked[key(id)].Bytes != nil
}

// Taken reports whether a certificate holds ip.
func (t *Table) Taken(ip netip.Addr) bool {
	_, ok := t.byIP[ip]
	return ok
}

// FreeSlice returns the first slice of network that no sponsor owns.
func (t *Table) FreeSlice(network netip.Prefix) (netip.Prefix, bool) {
	for _, s := range Slices(network) {
		free := true
		for _, e := range t.byID {
			if e.cert.Sponsor() && e.cert.Slice.Overlaps(s) {
				free = false
			}
		}
		if free {
			return s, true
		}
	}
	return netip.Prefix{}, false
}

// Sponsors is the number of sponsors.
func (t *Table) Sponsors() int {
	n := 0
	for _, e := range t.byID {
		if e.cert.Sponsor() {
			n++
		}
	}
	return n
}

func (t *Table) complete(id key) (cluster.Member, bool) {
	e := t.byID[id]
	if e == nil || e.ann == nil {
		return cluster.Member{}, false
	}
	return e.member(), true
}

func (e *entry) member() cluster.Member {
	return cluster.Member{
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
	}
}

// merge appends o; what joined and was removed within one change cancels out.
func (c Change) merge(o Change) Change {
	for _, n := range o.Removed {
		if i := slices.Index(c.Joined, n); i >= 0 {
			c.Joined = slices.Delete(c.Joined, i, i+1)
		} else {
			c.Removed = append(c.Removed, n)
		}
		c.Updated = slices.DeleteFunc(c.Updated, func(u cluster.NodeID) bool { return u == n })
	}
	for _, n := range o.Joined {
		if i := slices.Index(c.Removed, n); i >= 0 {
			c.Removed = slices.Delete(c.Removed, i, i+1)
			c.Updated = append(c.Updated, n)
		} else {
			c.Joined = append(c.Joined, n)
		}
	}
	for _, n := range o.Updated {
		if !slices.Contains(c.Joined, n) && !slices.Contains(c.Updated, n) {
			c.Updated = append(c.Updated, n)
		}
	}
	c.Stored = c.Stored || o.Stored
	return c
}

func (c Change) sorted() Change {
	slices.Sort(c.Joined)
	slices.Sort(c.Updated)
	slices.Sort(c.Removed)
	return c
}

// Empty reports whether no member changed.
func (c Change) Empty() bool { return len(c.Joined)+len(c.Updated)+len(c.Removed) == 0 }
