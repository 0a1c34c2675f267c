package member

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/skein-project/skein/cluster"
)

// Records is a set of records as it travels and is kept. Sponsors' certificates
// come before those that they signed.
type Records struct {
	Revokes []Signed `json:"revokes"`
	Certs   []Signed `json:"certs"`
	Anns    []Signed `json:"anns"`
	// Evidence is kept, and never told: AddAll ignores it.
	Evidence []Evidence `json:"evidence,omitempty"`
}

// MaxRecordsBytes bounds the JSON form of Records.
const MaxRecordsBytes = 3 * MaxMembers * 800

// DecodeRecords reads the JSON form of Records. It checks form and bounds, not
// signatures.
func DecodeRecords(b []byte) (Records, error) {
	if len(b) > MaxRecordsBytes {
		return Records{}, fmt.Errorf("records of %d bytes: %w", len(b), ErrFull)
	}
	var rs Records
	if err := json.Unmarshal(b, &rs); err != nil {
		return Records{}, fmt.Errorf("records: %w: %w", ErrFormat, err)
	}
	for _, s := range slices.Concat(rs.Revokes, rs.Certs, rs.Anns) {
		if s.IsZero() {
			return Records{}, fmt.Errorf("records: empty record: %w", ErrFormat)
		}
	}
	if len(rs.Evidence) > maxEvidence {
		return Records{}, fmt.Errorf("%d pieces of evidence: %w", len(rs.Evidence), ErrFull)
	}
	return rs, rs.check()
}

// check bounds the number of records: those of revoked keys include
// certificates too.
func (rs Records) check() error {
	if len(rs.Revokes) > maxKeys || len(rs.Certs) > maxKeys || len(rs.Anns) > MaxMembers {
		return fmt.Errorf("%d revokes, %d certs, %d anns: %w", len(rs.Revokes), len(rs.Certs), len(rs.Anns), ErrFull)
	}
	return nil
}

// Empty reports whether there is no record in rs.
func (rs Records) Empty() bool { return len(rs.Revokes)+len(rs.Certs)+len(rs.Anns) == 0 }

// Batches splits rs into parts of at most n records, to be merged in this
// order: sponsors, revocations with the certificates that a leave needs, other
// certificates, announcements. Evidence is left out.
func (rs Records) Batches(n int) []Records {
	var out []Records
	var last Records
	room := n
	flush := func() {
		if !last.Empty() {
			out, last, room = append(out, last), Records{}, n
		}
	}
	certs := map[key]Signed{} // of plain members
	var plain []key
	for _, s := range rs.Certs {
		c, err := ParseCert(s)
		if err != nil || c.Sponsor() {
			if room == 0 {
				flush()
			}
			last.Certs, room = append(last.Certs, s), room-1
			continue
		}
		if id := key(c.IDPub); certs[id].IsZero() {
			plain, certs[id] = append(plain, id), s
		}
	}
	flush()
	for _, s := range rs.Revokes {
		if room < 2 {
			flush()
		}
		last.Revokes, room = append(last.Revokes, s), room-1
		r, err := ParseRevoke(s)
		if err != nil {
			continue
		}
		if c, ok := certs[key(r.IDPub)]; ok {
			last.Certs, room = append(last.Certs, c), room-1
			delete(certs, key(r.IDPub))
		}
	}
	flush()
	for _, id := range plain {
		c, ok := certs[id]
		if !ok {
			continue // went with its revocation
		}
		if last.Certs = append(last.Certs, c); len(last.Certs) >= n {
			flush()
		}
	}
	flush()
	for part := range slices.Chunk(rs.Anns, max(n, 1)) {
		out = append(out, Records{Anns: part})
	}
	return out
}

// Item says which records of one key a host holds.
type Item struct {
	ID      []byte `json:"id"`   // first 16 bytes of the identity key
	Cert    []byte `json:"cert"` // first 8 bytes of the certificate's SHA-256
	Epoch   uint64 `json:"epoch"`
	Revoked bool   `json:"revoked,omitempty"`
	Root    bool   `json:"root,omitempty"` // revoked by the root key
}

// AddAll merges rs, whatever it holds: records that are refused do not stop the
// others. The error joins the refusals.
func (t *Table) AddAll(rs Records, now time.Time) (Change, error) { return t.addAll(rs, now, true) }

// Restore merges records that this host had verified and written down before:
// like AddAll, but a record that expired meanwhile, or whose issuer was revoked
// meanwhile, is still accepted, and evidence is taken over.
func (t *Table) Restore(rs Records, now time.Time) (Change, error) {
	if len(t.evidence) == 0 {
		t.evidence = slices.Clone(rs.Evidence[:min(len(rs.Evidence), maxEvidence)])
	}
	return t.addAll(rs, now, false)
}

func (t *Table) addAll(rs Records, now time.Time, dated bool) (Change, error) {
	if err := rs.check(); err != nil {
		return Change{}, err
	}
	all := t.sweep(now)
	var errs []error
	add := func(ch Change, err error) {
		all = all.merge(ch)
		if err != nil {
			errs = append(errs, err)
		}
	}
	// Sponsors come first, so that what they signed can be checked, then
	// revocations, so that a revoked key never appears. A leave needs the
	// certificate of its own key beside it, if that is not known.
	var plain []Signed
	certs := map[key]Signed{}
	for _, s := range rs.Certs {
		c, err := ParseCert(s)
		if err == nil {
			certs[key(c.IDPub)] = s
		}
		if err == nil && c.Sponsor() {
			add(t.addCert(s, now, dated))
		} else {
			plain = append(plain, s)
		}
	}
	for _, s := range rs.Revokes {
		if r, err := ParseRevoke(s); err == nil {
			add(t.addRevoke(s, certs[key(r.IDPub)], now, dated))
		} else {
			add(Change{}, err)
		}
	}
	for _, s := range plain {
		add(t.addCert(s, now, dated))
	}
	for _, s := range rs.Anns {
		add(t.addAnn(s, now, dated))
	}
	return all.sorted(), errors.Join(errs...)
}

// Records returns everything that t holds, to be written down.
func (d *Directory) Records() Records {
	rs := d.missing(nil, true)
	rs.Evidence = d.Evidence()
	return rs
}

// travels reports whether e's certificate and announcement are told to other
// hosts, who would refuse those that expired long ago and those of an issuer
// that is no longer a sponsor.
func (d *Directory) travels(e *entry) (cert, ann bool) {
	cert = d.stands(&e.claim)
	return cert, cert && e.ann != nil && !e.annLate
}

// Summary says which records t holds, for another host's Missing.
func (d *Directory) Summary() []Item {
	out := make([]Item, 0, len(d.byID)+len(d.gone))
	for _, e := range d.sorted() {
		out = append(out, Item{ID: e.id[:16], Cert: e.sum[:8], Epoch: e.epoch()})
	}
	for _, g := range d.sortedTombs() {
		if !d.mute(g) {
			out = append(out, Item{ID: g.id[:16], Cert: g.short(), Revoked: true, Root: d.byRoot(g.rev)})
		}
	}
	return out
}

// Missing returns the records of t that a host with summary have lacks or has
// older.
func (d *Directory) Missing(have []Item) Records { return d.missing(have, false) }

func (d *Directory) missing(have []Item, all bool) Records {
	type short [16]byte
	known := make(map[short]Item, len(have))
	for _, it := range have {
		if len(it.ID) == len(short{}) {
			known[short(it.ID)] = it
		}
	}
	var rs Records
	for _, e := range d.sorted() {
		it := known[short(e.id[:16])]
		cert, ann := d.travels(e)
		if (cert || all) && !bytes.Equal(it.Cert, e.sum[:8]) {
			rs.Certs = append(rs.Certs, e.rec)
		}
		if (ann || (all && e.ann != nil)) && !it.Revoked && it.Epoch < e.ann.Epoch {
			rs.Anns = append(rs.Anns, e.annRec)
		}
	}
	for _, g := range d.sortedTombs() {
		if !all && !d.spreads(g) {
			continue
		}
		it := known[short(g.id[:16])]
		if !it.Revoked || (!it.Root && d.byRoot(g.rev)) {
			rs.Revokes = append(rs.Revokes, g.revRec)
		}
		if !g.rec.IsZero() && !bytes.Equal(it.Cert, g.short()) {
			rs.Certs = append(rs.Certs, g.rec)
		}
	}
	return rs
}

// Digest identifies the records that travel: equal on hosts that hold the same
// certificates, announcement epochs and revocations.
func (d *Directory) Digest() [16]byte {
	h := sha256.New()
	var epoch [8]byte
	for _, e := range d.sorted() {
		cert, ann := d.travels(e)
		if !cert {
			continue
		}
		binary.BigEndian.PutUint64(epoch[:], 0)
		if ann {
			binary.BigEndian.PutUint64(epoch[:], e.ann.Epoch)
		}
		h.Write(e.id[:])
		h.Write(e.sum[:])
		h.Write(epoch[:])
	}
	h.Write([]byte{0})
	for _, g := range d.sortedTombs() {
		if d.spreads(g) {
			h.Write(g.id[:])
			h.Write(g.sum[:])
			if d.byRoot(g.rev) {
				h.Write([]byte{1})
			}
		}
	}
	return [16]byte(h.Sum(nil)[:16])
}

func (e *entry) epoch() uint64 {
	if e.ann == nil {
		return 0
	}
	return e.ann.Epoch
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
	c.Left = append(c.Left, o.Left...)
	c.Renewed, c.Rekeyed = append(c.Renewed, o.Renewed...), append(c.Rekeyed, o.Rekeyed...)
	c.Evidence = append(c.Evidence, o.Evidence...)
	c.Stored = c.Stored || o.Stored
	return c
}

// show and drop note that a member appeared and disappeared.
func (c *Change) show(n cluster.NodeID) { *c = c.merge(Change{Joined: []cluster.NodeID{n}}) }
func (c *Change) drop(n cluster.NodeID) { *c = c.merge(Change{Removed: []cluster.NodeID{n}}) }

func (c Change) sorted() Change {
	slices.Sort(c.Joined)
	slices.Sort(c.Updated)
	slices.Sort(c.Removed)
	only := func(list, of []cluster.NodeID) []cluster.NodeID {
		slices.Sort(list)
		return slices.DeleteFunc(slices.Compact(list), func(n cluster.NodeID) bool { return !slices.Contains(of, n) })
	}
	c.Left = only(c.Left, c.Removed)
	c.Renewed, c.Rekeyed = only(c.Renewed, c.Updated), only(c.Rekeyed, c.Updated)
	return c
}

// Empty reports whether no member changed.
func (c Change) Empty() bool { return len(c.Joined)+len(c.Updated)+len(c.Removed) == 0 }
