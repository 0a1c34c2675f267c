package member

import (
	"bytes"
	"cmp"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// maxEvidence bounds what Table keeps of refused contradictions.
const maxEvidence = 64

// Verifier is what makes a record one of this cluster's.
type Verifier struct {
	Cluster ClusterID
	RootPub ed25519.PublicKey
}

// Change is what records did to a table, each list sorted by node id. A host
// is a member once it has a certificate and an announcement.
type Change struct {
	Joined  []cluster.NodeID
	Updated []cluster.NodeID
	Removed []cluster.NodeID
	// Stored says that at least one record is new, even where no member
	// changed: the records are to be written down.
	Stored bool
}

// Evidence is two valid records that contradict each other.
type Evidence struct {
	Node  cluster.NodeID // of the record that was kept
	Why   error          // ErrForked or ErrConflict
	Kept  Signed
	Other Signed
}

// Table merges records. It has one owner and no lock.
type Table struct {
	v        Verifier
	byID     map[key]*entry
	byNode   map[cluster.NodeID]key
	byIP     map[netip.Addr]key
	revoked  map[key]Signed
	evidence []Evidence
}

type key [32]byte

type entry struct {
	id      key
	cert    Cert
	certRec Signed
	ann     *Ann // nil: not announced yet
	annRec  Signed
}

// NewTable returns an empty table of v's cluster.
func NewTable(v Verifier) *Table {
	return &Table{
		v:       v,
		byID:    map[key]*entry{},
		byNode:  map[cluster.NodeID]key{},
		byIP:    map[netip.Addr]key{},
		revoked: map[key]Signed{},
	}
}

// AddCert merges a certificate that arrived at wall time now. A record that is
// known or superseded changes nothing and is no error.
func (t *Table) AddCert(s Signed, now time.Time) (Change, error) { return t.addCert(s, now, true) }

func (t *Table) addCert(s Signed, now time.Time, dated bool) (Change, error) {
	c, err := ParseCert(s)
	if err != nil {
		return Change{}, err
	}
	id := key(c.IDPub)
	old := t.byID[id]
	if old != nil && old.certRec.Equal(s) {
		return Change{}, nil
	}
	if err := t.checkCert(c, s, now, dated); err != nil {
		return Change{}, fmt.Errorf("cert of %s: %w", c.Node, err)
	}
	e := &entry{id: id, cert: c, certRec: s}
	if old != nil {
		if old.cert.Node == c.Node && old.cert.IP4 == c.IP4 {
			if !t.newer(e, old) {
				return Change{}, nil
			}
		} else if !t.outranks(e, old) {
			t.keep(Evidence{Node: old.cert.Node, Why: ErrConflict, Kept: old.certRec, Other: s})
			return Change{}, fmt.Errorf("cert of %s: key is certified as %s: %w", c.Node, old.cert.Node, ErrConflict)
		}
		e.ann, e.annRec = old.ann, old.annRec
	} else if len(t.byID) >= MaxMembers {
		return Change{}, fmt.Errorf("cert of %s: %w", c.Node, ErrFull)
	}
	rivals := t.rivals(e)
	for _, r := range rivals {
		if !t.outranks(e, r) {
			t.keep(Evidence{Node: r.cert.Node, Why: ErrConflict, Kept: r.certRec, Other: s})
			return Change{}, fmt.Errorf("cert of %s at %s: held by %s at %s: %w", c.Node, c.IP4, r.cert.Node, r.cert.IP4, ErrConflict)
		}
	}
	ch := Change{Stored: true}
	for _, r := range rivals {
		t.keep(Evidence{Node: c.Node, Why: ErrConflict, Kept: s, Other: r.certRec})
		t.remove(r, &ch)
	}
	switch {
	case old == nil:
	case old.cert.Node != c.Node: // renamed by a higher-ranking certificate
		t.remove(old, &ch)
		if e.ann != nil {
			ch.Joined = append(ch.Joined, c.Node)
		}
	default:
		t.unindex(old)
		if e.ann != nil {
			ch.Updated = append(ch.Updated, c.Node)
		}
	}
	t.byID[id], t.byNode[c.Node], t.byIP[c.IP4] = e, id, id
	return ch, nil
}

// checkCert checks everything about a certificate but its rivals.
func (t *Table) checkCert(c Cert, s Signed, now time.Time, dated bool) error {
	if c.Cluster != t.v.Cluster {
		return ErrCluster
	}
	if err := t.checkIssuer(c, s); err != nil {
		return err
	}
	if _, ok := t.revoked[key(c.IDPub)]; ok {
		return ErrRevoked
	}
	if dated {
		return checkDates(c.Issued, c.Expires, now)
	}
	return nil
}

// checkIssuer walks the chain: the root key, or a key that the root key
// certified as a sponsor of the address.
func (t *Table) checkIssuer(c Cert, s Signed) error {
	if c.Issuer.Equal(t.v.RootPub) {
		if !s.signedBy(certDomain, t.v.RootPub) {
			return ErrSignature
		}
		return nil
	}
	sponsor := t.byID[key(c.Issuer)]
	if sponsor == nil || !t.rooted(sponsor) || !sponsor.cert.Sponsor() {
		return ErrNoIssuer
	}
	switch {
	case !s.signedBy(certDomain, c.Issuer):
		return ErrSignature
	case c.Sponsor():
		return fmt.Errorf("a sponsor cannot make sponsors: %w", ErrNoIssuer)
	case !sponsor.cert.Slice.Contains(c.IP4):
		return ErrSlice
	case c.Expires == 0:
		return fmt.Errorf("no expiry: %w", ErrFormat)
	case c.Issued < sponsor.cert.Issued:
		return fmt.Errorf("issued before its sponsor was certified: %w", ErrFormat)
	}
	return nil
}

func checkDates(issued, expires int64, now time.Time) error {
	if time.Unix(issued, 0).After(now.Add(maxAhead)) {
		return ErrFuture
	}
	if expires != 0 && !now.Before(time.Unix(expires, 0)) {
		return ErrExpired
	}
	return nil
}

// AddAnn merges an announcement that arrived at wall time now. A record that
// is known or superseded changes nothing and is no error.
func (t *Table) AddAnn(s Signed, now time.Time) (Change, error) { return t.addAnn(s, now, true) }

func (t *Table) addAnn(s Signed, now time.Time, dated bool) (Change, error) {
	a, err := ParseAnn(s)
	if err != nil {
		return Change{}, err
	}
	id := key(a.IDPub)
	e := t.byID[id]
	switch {
	case t.revoked[id].Bytes != nil:
		return Change{}, fmt.Errorf("ann: %w", ErrRevoked)
	case e == nil:
		return Change{}, fmt.Errorf("ann: %w", ErrNoCert)
	case e.ann != nil && (a.Epoch < e.ann.Epoch || e.annRec.Equal(s)):
		return Change{}, nil
	}
	wrap := func(err error) error { return fmt.Errorf("ann %d of %s: %w", a.Epoch, e.cert.Node, err) }
	if !s.signedBy(annDomain, a.IDPub) {
		return Change{}, wrap(ErrSignature)
	}
	if e.ann != nil && a.Epoch == e.ann.Epoch {
		if bytes.Equal(s.Bytes, e.annRec.Bytes) {
			return Change{}, nil // same content, another valid signature
		}
		t.keep(Evidence{Node: e.cert.Node, Why: ErrForked, Kept: e.annRec, Other: s})
		return Change{}, wrap(ErrForked)
	}
	if dated {
		if err := checkDates(a.Issued, a.Expires, now); err != nil {
			return Change{}, wrap(err)
		}
	}
	for _, o := range t.byID {
		if o != e && o.ann != nil && (o.ann.WGPub == a.WGPub || o.ann.Next == a.WGPub) {
			return Change{}, wrap(fmt.Errorf("wireguard key is %s's: %w", o.cert.Node, ErrConflict))
		}
	}
	ch := Change{Stored: true}
	if e.ann == nil {
		ch.Joined = append(ch.Joined, e.cert.Node)
	} else {
		ch.Updated = append(ch.Updated, e.cert.Node)
	}
	e.ann, e.annRec = &a, s
	return ch, nil
}

// AddRevoke merges a revocation that arrived at wall time now. Only the root
// key ends a sponsor's.
func (t *Table) AddRevoke(s Signed, now time.Time) (Change, error) {
	r, err := ParseRevoke(s)
	if err != nil {
		return Change{}, err
	}
	id := key(r.IDPub)
	if _, ok := t.revoked[id]; ok {
		return Change{}, nil
	}
	if r.Cluster != t.v.Cluster {
		return Change{}, fmt.Errorf("revoke: %w", ErrCluster)
	}
	e := t.byID[id]
	if !r.Issuer.Equal(t.v.RootPub) {
		sponsor := t.byID[key(r.Issuer)]
		if sponsor == nil || !t.rooted(sponsor) || !sponsor.cert.Sponsor() || (e != nil && e.cert.Sponsor()) {
			return Change{}, fmt.Errorf("revoke: %w", ErrNoIssuer)
		}
	}
	if !s.signedBy(revokeDomain, r.Issuer) {
		return Change{}, fmt.Errorf("revoke: %w", ErrSignature)
	}
	if err := checkDates(r.Issued, r.Expires, now); err != nil {
		return Change{}, fmt.Errorf("revoke: %w", err)
	}
	if len(t.revoked) >= MaxMembers {
		return Change{}, fmt.Errorf("revoke: %w", ErrFull)
	}
	ch := Change{Stored: true}
	t.revoked[id] = s
	if e != nil {
		t.remove(e, &ch)
	}
	return ch, nil
}

// rivals returns the entries of other keys that hold e's node id or address.
func (t *Table) rivals(e *entry) []*entry {
	var out []*entry
	for _, id := range []struct {
		k  key
		ok bool
	}{lookup(t.byNode, e.cert.Node), lookup(t.byIP, e.cert.IP4)} {
		if id.ok && id.k != e.id && !slices.Contains(out, t.byID[id.k]) {
			out = append(out, t.byID[id.k])
		}
	}
	return out
}

func lookup[K comparable](m map[K]key, k K) struct {
	k  key
	ok bool
} {
	v, ok := m[k]
	return struct {
		k  key
		ok bool
	}{v, ok}
}

func (t *Table) rooted(e *entry) bool { return e.cert.Issuer.Equal(t.v.RootPub) }

// outranks settles which of two contradicting certificates stands: the
// root-signed one, then the earlier, then the lower key, then the lower bytes.
func (t *Table) outranks(a, b *entry) bool {
	if ra, rb := t.rooted(a), t.rooted(b); ra != rb {
		return ra
	}
	c := cmp.Compare(a.cert.Issued, b.cert.Issued)
	if c == 0 {
		c = bytes.Compare(a.id[:], b.id[:])
	}
	if c == 0 {
		c = bytes.Compare(a.certRec.Bytes, b.certRec.Bytes)
	}
	return c < 0
}

// newer settles which of two certificates of one key, node id and address is
// kept: the root-signed one, then the later, then the higher serial.
func (t *Table) newer(a, b *entry) bool {
	if ra, rb := t.rooted(a), t.rooted(b); ra != rb {
		return ra
	}
	c := cmp.Compare(a.cert.Issued, b.cert.Issued)
	if c == 0 {
		c = cmp.Compare(a.cert.Serial, b.cert.Serial)
	}
	if c == 0 {
		c = bytes.Compare(a.certRec.Bytes, b.certRec.Bytes)
	}
	return c > 0
}

func (t *Table) remove(e *entry, ch *Change) {
	t.unindex(e)
	delete(t.byID, e.id)
	if e.ann != nil {
		ch.Removed = append(ch.Removed, e.cert.Node)
	}
}

func (t *Table) unindex(e *entry) {
	if t.byNode[e.cert.Node] == e.id {
		delete(t.byNode, e.cert.Node)
	}
	if t.byIP[e.cert.IP4] == e.id {
		delete(t.byIP, e.cert.IP4)
	}
}

// keep stores evidence once; when full the oldest goes.
func (t *Table) keep(ev Evidence) {
	for _, o := range t.evidence {
		if o.Other.Equal(ev.Other) && o.Kept.Equal(ev.Kept) {
			return
		}
	}
	if len(t.evidence) >= maxEvidence {
		t.evidence = slices.Delete(t.evidence, 0, 1)
	}
	t.evidence = append(t.evidence, ev)
}

// Evidence returns the contradictions seen, oldest first, at most 64.
func (t *Table) Evidence() []Evidence { return slices.Clone(t.evidence) }

// Len is the number of certified keys, announced or not.
func (t *Table) Len() int { return len(t.byID) }

// Digest identifies the records: equal on hosts that hold the same
// certificates, announcement epochs and revocations.
func (t *Table) Digest() [16]byte {
	h := sha256.New()
	for _, e := range t.sorted() {
		h.Write(e.id[:])
		sum := sha256.Sum256(e.certRec.Bytes)
		h.Write(sum[:])
		h.Write(binary.BigEndian.AppendUint64(nil, e.epoch()))
	}
	h.Write([]byte{0})
	for _, id := range t.sortedRevoked() {
		h.Write(id[:])
	}
	return [16]byte(h.Sum(nil)[:16])
}

func (e *entry) epoch() uint64 {
	if e.ann == nil {
		return 0
	}
	return e.ann.Epoch
}

// sorted returns the entries, sponsors first, then by key: each record comes
// after the one that it depends on.
func (t *Table) sorted() []*entry {
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
	return out
}

func (t *Table) sortedRevoked() []key {
	out := make([]key, 0, len(t.revoked))
	for id := range t.revoked {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b key) int { return bytes.Compare(a[:], b[:]) })
	return out
}
