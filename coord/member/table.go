package member

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"net/netip"
	"time"

	"github.com/skein-project/skein/cluster"
)

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
	// Removed are the hosts that are members no more, for whatever reason;
	// Left are those of them that left by their own signature.
	Removed []cluster.NodeID
	Left    []cluster.NodeID
	// Renewed and Rekeyed are those of Updated that have a newer certificate
	// and another WireGuard key.
	Renewed []cluster.NodeID
	Rekeyed []cluster.NodeID
	// Evidence is what was added to Table.Evidence.
	Evidence []Evidence
	// Stored says that at least one record or piece of evidence is new, even
	// where no member changed: the records are to be written down.
	Stored bool
}

// Table merges records: it changes what its Directory reads. It has one owner
// and no lock.
type Table struct {
	Directory
	swept time.Time // of the last Expire
}

// Directory answers what a table's records say, and changes nothing.
type Directory struct{ trust }

type key [32]byte

// claim is a certificate and what it lays claim to.
type claim struct {
	id   key
	cert Cert
	rec  Signed
	sum  [32]byte // SHA-256 of rec.Bytes
	late bool     // expired so long ago that it is not told to others any more
}

// entry is a certified key.
type entry struct {
	claim
	ann     *Ann // nil: not announced yet
	annRec  Signed
	annLate bool // like claim.late
	noIP4   bool // another key has the better claim to the address
	noWG    bool // another key has the better claim to ann.WGPub
}

// shown reports whether e is a member.
func (e *entry) shown() bool { return e.ann != nil && !e.noWG }

// NewTable returns an empty table of v's cluster.
func NewTable(v Verifier) *Table {
	return &Table{Directory: Directory{trust{
		v:      v,
		byID:   map[key]*entry{},
		gone:   map[key]*tomb{},
		byNode: map[cluster.NodeID]key{},
		byIP:   map[netip.Addr]key{},
		byWG:   map[[32]byte]key{},
	}}}
}

// AddCert merges a certificate that arrived at wall time now. A record that is
// known or superseded changes nothing and is no error. That of a revoked key
// only reserves the node id and the address. A host that loses its IPv4
// address to another key stays a member without it.
func (t *Table) AddCert(s Signed, now time.Time) (Change, error) { return t.addCert(s, now, true) }

func (t *Table) addCert(s Signed, now time.Time, dated bool) (Change, error) {
	c, err := ParseCert(s)
	if err != nil {
		return Change{}, err
	}
	id := key(c.IDPub)
	old, tomb := t.byID[id], t.gone[id]
	if (old != nil && old.rec.Equal(s)) || (tomb != nil && tomb.rec.Equal(s) && !t.mute(tomb)) {
		return Change{}, nil
	}
	wrap := func(err error) error { return fmt.Errorf("cert of %s: %w", c.Node, err) }
	// What a revoked sponsor once signed still counts for a revoked key, and
	// for what this host had accepted before.
	if err := t.checkCert(c, s, !dated || tomb != nil); err != nil {
		return Change{}, wrap(err)
	}
	e := &entry{claim: claim{id: id, cert: c, rec: s, sum: sha256.Sum256(s.Bytes), late: late(c.Expires, now)}}
	if tomb != nil && !t.void(tomb, &e.claim) {
		return t.bury(tomb, e.claim), nil
	}
	if dated {
		if err := checkDates(c.Issued, c.Expires, now); err != nil {
			return Change{}, wrap(err)
		}
	}
	var room Change
	if old == nil {
		limit := maxKeys - rootReserve
		if tomb != nil {
			limit = maxKeys + 1 // a key that is here already
		}
		if !t.room(limit, MaxMembers, &room) {
			return room, wrap(ErrFull)
		}
	}
	if tomb != nil {
		t.unearth(tomb)
	}
	ch, err := t.place(e, old, now)
	if tomb != nil || c.Sponsor() {
		t.recontend(&ch) // what it certified counts again
	}
	return room.merge(ch), err
}

// place puts a verified certificate where it belongs beside its own
// predecessor and its rivals.
func (t *Table) place(e, old *entry, now time.Time) (Change, error) {
	var ch Change
	c := e.cert
	if old != nil {
		if old.cert.Node != c.Node && !t.outranks(&e.claim, &old.claim) {
			t.keep(&ch, Evidence{Node: old.cert.Node, Why: ErrConflict, Kept: old.rec, Other: e.rec}, now)
			return ch, fmt.Errorf("cert of %s: key is certified as %s: %w", c.Node, old.cert.Node, ErrConflict)
		}
		if old.cert.Node == c.Node && !t.newer(&e.claim, &old.claim) {
			return ch, nil
		}
		e.ann, e.annRec, e.annLate, e.noWG = old.ann, old.annRec, old.annLate, old.noWG
	}
	// A revoked key reserves its node id and address where they are given, and
	// yields to a live one here: else hosts that forgot it earlier than others
	// would not agree.
	if rival := t.byID[t.byNode[c.Node]]; rival != nil && rival.id != e.id {
		if !t.outranks(&e.claim, &rival.claim) {
			t.keep(&ch, Evidence{Node: c.Node, Why: ErrConflict, Kept: rival.rec, Other: e.rec}, now)
			return ch, fmt.Errorf("cert of %s: node id is another key's: %w", c.Node, ErrConflict)
		}
		t.keep(&ch, Evidence{Node: c.Node, Why: ErrConflict, Kept: e.rec, Other: rival.rec}, now)
		t.remove(rival, &ch)
	}
	ch.Stored = true
	switch {
	case old == nil:
	case old.cert.Node != c.Node: // renamed by a higher-ranking certificate
		t.remove(old, &ch)
	default:
		t.unindex(&old.claim)
		if old.noIP4 {
			t.lost--
		}
		if e.shown() {
			ch.Updated, ch.Renewed = append(ch.Updated, c.Node), append(ch.Renewed, c.Node)
		}
	}
	t.order, t.byID[e.id], t.byNode[c.Node], t.byIP[c.IP6] = nil, e, e.id, e.id
	t.contend(e, &ch, now)
	switch {
	case e.ann == nil:
	case old.cert.Node != c.Node:
		if t.indexKeys(e, &ch, now); e.shown() {
			ch.show(c.Node)
		}
	default:
		t.recontendKeys(&ch)
	}
	return ch, nil
}

// contend gives e its IPv4 address, or leaves it with the better claim.
func (t *Table) contend(e *entry, ch *Change, now time.Time) {
	if rival := t.byID[t.byIP[e.cert.IP4]]; rival != nil && rival.id != e.id {
		if !t.nearer(&e.claim, &rival.claim) {
			t.keep(ch, Evidence{Node: rival.cert.Node, Why: ErrConflict, Kept: rival.rec, Other: e.rec}, now)
			e.noIP4 = true
			t.lost++
			return
		}
		t.keep(ch, Evidence{Node: e.cert.Node, Why: ErrConflict, Kept: e.rec, Other: rival.rec}, now)
		rival.noIP4 = true
		t.lost++
		if rival.shown() {
			ch.Updated = append(ch.Updated, rival.cert.Node)
		}
	}
	t.byIP[e.cert.IP4] = e.id
}

func checkDates(issued, expires int64, now time.Time) error {
	if time.Unix(issued, 0).After(now.Add(maxAhead)) {
		return ErrFuture
	}
	if late(expires, now) {
		return ErrExpired
	}
	return nil
}

// late reports whether what expired then is not told any more.
func late(expires int64, now time.Time) bool {
	return expires != 0 && !now.Before(time.Unix(expires, 0).Add(ExpiredGrace))
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
	case t.gone[id] != nil:
		return Change{}, fmt.Errorf("ann: %w", ErrRevoked)
	case e == nil:
		return Change{}, fmt.Errorf("ann: %w", ErrNoCert)
	case e.ann != nil && (a.Epoch < e.ann.Epoch || bytes.Equal(s.Bytes, e.annRec.Bytes)):
		return Change{}, nil
	}
	wrap := func(err error) error { return fmt.Errorf("ann %d of %s: %w", a.Epoch, e.cert.Node, err) }
	if !s.signedBy(annDomain, a.IDPub) {
		return Change{}, wrap(ErrSignature)
	}
	var ch Change
	if e.ann != nil && a.Epoch == e.ann.Epoch {
		t.keep(&ch, Evidence{Node: e.cert.Node, Why: ErrForked, Kept: e.annRec, Other: s}, now)
		return ch, wrap(ErrForked)
	}
	if dated {
		if err := checkDates(a.Issued, a.Expires, now); err != nil {
			return ch, wrap(err)
		}
	}
	ch.Stored = true
	before, rekeyed := e.shown(), e.ann == nil || e.ann.WGPub != a.WGPub
	if rekeyed {
		t.unindexKeys(e, &ch)
	}
	e.ann, e.annRec, e.annLate = &a, s, late(a.Expires, now)
	if rekeyed {
		t.indexKeys(e, &ch, now)
	}
	switch after := e.shown(); {
	case after && !before:
		ch.show(e.cert.Node)
	case before && !after:
		ch.drop(e.cert.Node)
	case after:
		ch.Updated = append(ch.Updated, e.cert.Node)
		if rekeyed {
			ch.Rekeyed = append(ch.Rekeyed, e.cert.Node)
		}
	}
	return ch, nil
}

// recontend gives addresses and WireGuard keys to those who have the better
// claim now that some claims have become void.
func (t *Table) recontend(ch *Change) {
	t.recontendKeys(ch)
	if t.lost == 0 {
		return
	}
	for _, e := range t.sorted() {
		if !e.noIP4 {
			continue
		}
		holder := t.byID[t.byIP[e.cert.IP4]]
		if holder != nil && !t.nearer(&e.claim, &holder.claim) {
			continue
		}
		for _, x := range []*entry{e, holder} {
			if x != nil && x.shown() {
				ch.Updated = append(ch.Updated, x.cert.Node)
			}
		}
		e.noIP4, t.byIP[e.cert.IP4] = false, e.id
		if holder != nil {
			holder.noIP4 = true
		} else {
			t.lost--
		}
	}
}

// remove forgets a certified key.
func (t *Table) remove(e *entry, ch *Change) {
	shown := e.shown()
	t.order = nil
	delete(t.byID, e.id)
	t.unindexKeys(e, ch)
	if e.noIP4 {
		t.lost--
	}
	t.unindex(&e.claim)
	if shown {
		ch.drop(e.cert.Node)
	}
}

// unindex gives up what c held. An address goes to the best of those that
// lack it.
func (t *Table) unindex(c *claim) {
	if t.byNode[c.cert.Node] == c.id {
		delete(t.byNode, c.cert.Node)
	}
	if t.byIP[c.cert.IP6] == c.id {
		delete(t.byIP, c.cert.IP6)
	}
	if t.byIP[c.cert.IP4] != c.id {
		return
	}
	delete(t.byIP, c.cert.IP4)
	if t.lost == 0 {
		return
	}
	var heir *entry
	for _, e := range t.byID {
		if e.noIP4 && e.id != c.id && e.cert.IP4 == c.cert.IP4 && (heir == nil || t.nearer(&e.claim, &heir.claim)) {
			heir = e
		}
	}
	if heir != nil {
		heir.noIP4 = false
		t.lost--
		t.byIP[c.cert.IP4] = heir.id
	}
}

// Len is the number of certified keys, announced or not.
func (d *Directory) Len() int { return len(d.byID) }
