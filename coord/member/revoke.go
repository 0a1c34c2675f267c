package member

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/skein-project/skein/cluster"
)

// tomb is a revoked key. Its claim, if the certificate is known, goes on: the
// node id and the addresses stay its own until no certificate of the key can
// come back.
type tomb struct {
	claim
	id     key
	rev    Revoke
	revRec Signed
	over   bool // not told to others any more, soon forgotten
}

// Retired is a host that is no longer a member.
type Retired struct {
	Node   cluster.NodeID
	Cert   Cert
	Left   bool // by its own signature
	Reason string
	At     time.Time
	// Until is when node id and addresses become free; zero: never.
	Until time.Time
}

// short is the certificate's part of an Item, nil if there is none.
func (g *tomb) short() []byte {
	if g.rec.IsZero() {
		return nil
	}
	return g.sum[:8]
}

// until is when g ends; 0: never.
func (g *tomb) until() int64 {
	if g.rev.Expires == 0 || (!g.rec.IsZero() && g.cert.Expires == 0) {
		return 0
	}
	if g.rec.IsZero() {
		return g.rev.Expires
	}
	return max(g.rev.Expires, RevokeUntil(g.cert))
}

// ended reports whether g ended at least margin before now.
func (g *tomb) ended(now time.Time, margin time.Duration) bool {
	end := g.until()
	return end != 0 && !now.Before(time.Unix(end, 0).Add(margin))
}

// AddRevoke merges a revocation that arrived at wall time now. A sponsor ends
// members, only the root key ends a sponsor, and every key may end itself,
// once its certificate is known.
func (t *Table) AddRevoke(s Signed, now time.Time) (Change, error) {
	return t.addRevoke(s, Signed{}, now, true)
}

// addRevoke merges a revocation; cert is a certificate of its key, if one came
// with it. What this host had written down binds whatever its clock says now:
// else a host that starts with a wrong clock would take back whom it removed.
func (t *Table) addRevoke(s, cert Signed, now time.Time, dated bool) (Change, error) {
	r, err := ParseRevoke(s)
	if err != nil {
		return Change{}, err
	}
	id := key(r.IDPub)
	e, g := t.byID[id], t.gone[id]
	if g != nil && (g.revRec.Equal(s) || !t.binds(r, g)) {
		return Change{}, nil
	}
	if err := t.checkRevoke(r, s, cert, dated); err != nil {
		return Change{}, fmt.Errorf("revoke: %w", err)
	}
	if dated && time.Unix(r.Issued, 0).After(now.Add(maxAhead)) {
		return Change{}, fmt.Errorf("revoke: %w", ErrFuture)
	}
	ch := Change{Stored: true}
	if g != nil { // one that binds more
		g.rev, g.revRec = r, s
		g.over = g.ended(now, 0)
		t.disown(g, &ch)
		return ch, nil
	}
	if dated && e == nil && r.Expires != 0 && !now.Before(time.Unix(r.Expires, 0)) {
		return Change{}, nil // every certificate of that key is over as well
	}
	// A certified key only changes sides, which takes no room.
	limit := maxKeys - rootReserve
	if t.byRoot(r) {
		limit = maxKeys
	}
	if e == nil && !t.room(limit, maxKeys, &ch) {
		return Change{}, fmt.Errorf("revoke: %w", ErrFull)
	}
	g = &tomb{id: id, rev: r, revRec: s}
	t.gone[id] = g
	if e != nil {
		t.retire(e, g, &ch)
	}
	t.disown(g, &ch)
	g.over = g.ended(now, 0)
	return ch, nil
}

// outlasts reports whether a binds for longer than b.
func outlasts(a, b Revoke) bool {
	return b.Expires != 0 && (a.Expires == 0 || a.Expires > b.Expires)
}

// disown forgets what the sponsor of g, now ended by the root key, revoked
// though another's certificate still stands.
func (t *Table) disown(end *tomb, ch *Change) {
	if !t.byRoot(end.rev) {
		return
	}
	for _, g := range t.gone {
		if g.rev.Issuer.Equal(end.rev.IDPub) && !g.rev.Left() && !g.rec.IsZero() && t.stands(&g.claim) {
			t.unearth(g)
		}
	}
	t.recontend(ch)
}

// room reports whether one more key fits below limit, and with members below
// that too one more certified one. When the table is full it forgets what counts
// with no other host: revocations that are not told, and keys whose issuer is
// gone without an announcement, or whose issuer the root key ended a day ago:
// an honest host had its certificate renewed by then.
func (t *Table) room(limit, members int, ch *Change) bool {
	fits := func() bool { return len(t.byID)+len(t.gone) < limit && len(t.byID) < members }
	if fits() {
		return true
	}
	for _, g := range t.gone {
		if !g.over && !t.spreads(g) {
			t.unearth(g)
		}
	}
	for _, e := range t.byID {
		end := t.gone[key(e.cert.Issuer)]
		lapsed := end != nil && t.byRoot(end.rev) && t.swept.After(time.Unix(end.rev.Issued, 0).Add(renewTime))
		if !t.stands(&e.claim) && (e.ann == nil || lapsed) {
			t.remove(e, ch)
		}
	}
	return fits()
}

// retire moves a certified key to g. What it held stays its own, except its
// WireGuard keys.
func (t *Table) retire(e *entry, g *tomb, ch *Change) {
	shown := e.shown()
	delete(t.byID, e.id)
	t.unindexKeys(e, ch)
	t.order = nil
	if e.noIP4 {
		t.lost--
	}
	g.claim = e.claim
	t.recontend(ch) // its address, and what it certified as a sponsor, yield to others
	if !shown {
		return
	}
	ch.drop(e.cert.Node)
	if g.rev.Left() {
		ch.Left = append(ch.Left, e.cert.Node)
	}
}

// unearth forgets a revocation.
func (t *Table) unearth(g *tomb) {
	delete(t.gone, g.id)
	if !g.rec.IsZero() {
		t.unindex(&g.claim)
	}
}

// bury notes a certificate of a revoked key.
func (t *Table) bury(g *tomb, c claim) Change {
	if !g.rec.IsZero() {
		better := t.newer(&c, &g.claim)
		if c.cert.Node != g.cert.Node {
			better = t.outranks(&c, &g.claim)
		}
		if !better {
			return Change{}
		}
		t.unindex(&g.claim)
	}
	g.claim = c
	if _, held := t.byNode[c.cert.Node]; !held {
		t.byNode[c.cert.Node] = g.id
	}
	if _, held := t.byIP[c.cert.IP4]; !held {
		t.byIP[c.cert.IP4] = g.id
	}
	t.byIP[c.cert.IP6] = g.id
	return Change{Stored: true}
}

// Expire forgets what is over at wall time now: revocations whose key has no
// certificate that could return. It also stops telling others of records that
// expired long ago, which changes no member. To be called every few minutes;
// AddAll does it too. Change.Stored says that the Digest may have changed.
func (t *Table) Expire(now time.Time) Change {
	t.swept = now
	var ch Change
	note := func(flag *bool, v bool) {
		ch.Stored = ch.Stored || *flag != v
		*flag = v
	}
	for _, e := range t.byID {
		note(&e.late, late(e.cert.Expires, now))
		note(&e.annLate, e.ann != nil && late(e.ann.Expires, now))
	}
	t.recontend(&ch)
	for _, g := range t.gone {
		note(&g.over, g.ended(now, 0))
		if g.ended(now, tombLinger) {
			t.unearth(g)
			ch.Stored = true
		}
	}
	return ch
}

// sweep is Expire, at most every 10 s.
func (t *Table) sweep(now time.Time) Change {
	if d := now.Sub(t.swept); d >= 0 && d < 10*time.Second {
		return Change{}
	}
	return t.Expire(now)
}

// Retired returns the hosts whose key was revoked and not forgotten yet, by
// node id and then by time. A revoked key whose certificate this host never
// saw is not among them.
func (d *Directory) Retired() []Retired {
	out := make([]Retired, 0, len(d.gone))
	for _, g := range d.gone {
		if g.rec.IsZero() {
			continue
		}
		r := Retired{
			Node: g.cert.Node, Cert: g.cert, Left: g.rev.Left(), Reason: g.rev.Reason,
			At: time.Unix(g.rev.Issued, 0).UTC(),
		}
		if end := g.until(); end != 0 {
			r.Until = time.Unix(end, 0).UTC()
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Retired) int {
		if c := strings.Compare(string(a.Node), string(b.Node)); c != 0 {
			return c
		}
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return bytes.Compare(a.Cert.IDPub, b.Cert.IDPub)
	})
	return out
}

// Revocation returns the record that ended the host with node id n.
func (d *Directory) Revocation(n cluster.NodeID) (Signed, bool) {
	g := d.gone[d.byNode[n]]
	if g == nil {
		return Signed{}, false
	}
	return g.revRec, true
}
