package member

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

// numbered returns a key pair that few others have.
func numbered(i int) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	binary.BigEndian.PutUint32(seed, uint32(i+1))
	return ed25519.NewKeyFromSeed(seed)
}

func rootRevocation(t testing.TB, h host, at time.Time) Signed {
	t.Helper()
	s, err := Revoke{Cluster: testCluster, IDPub: pub(h.key), Reason: "leaked", Issued: at.Unix(), Issuer: verifier.RootPub}.Sign(rootKey)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRevocationsOfStrangers: a sponsor ends only keys that are certified, for
// as long as their certificates can last.
func TestRevocationsOfStrangers(t *testing.T) {
	tab, n1, n2 := started(t)
	stranger := newHost(9).cert(0, 9)
	if _, err := tab.AddRevoke(revocation(t, stranger, "x", t0, n1), t0); !errors.Is(err, ErrNoCert) {
		t.Errorf("of a key without certificate: %v", err)
	}
	forEver := n2.cert(0, 2)
	forEver.Expires = 0
	long := n2.cert(0, 2)
	long.Expires = t0.Add(2 * maxRevokeLife).Unix()
	for _, c := range []Cert{forEver, long} {
		if _, err := tab.AddRevoke(revocation(t, c, "x", t0, n1), t0); !errors.Is(err, ErrFormat) {
			t.Errorf("that ends in %d: %v", c.Expires, err)
		}
	}
	if _, err := tab.AddCert(signCert(t, long, n1.key), t0); !errors.Is(err, ErrFormat) {
		t.Errorf("certificate for too long: %v", err)
	}
	if len(tab.gone) != 0 {
		t.Errorf("%d revocations", len(tab.gone))
	}
}

// TestFullOfRevocations: whoever has a sponsor's key can fill the table with
// keys that it made, certified and revoked. Members and the sponsor itself can
// still be removed and can leave, and when the root key has ended the sponsor
// there is room again.
func TestFullOfRevocations(t *testing.T) {
	tab, n1, n2 := started(t)
	n3 := newHost(3)
	if _, err := tab.AddAll(Records{Certs: []Signed{n3.sponsorCert(t, 1)}, Anns: []Signed{n3.announce(t, 1)}}, t0); err != nil {
		t.Fatal(err)
	}
	junk := func(i int) Records {
		k := numbered(i)
		c := newHost(9).cert(0, 9)
		c.IDPub, c.IP6 = pub(k), ULA(testCluster, pub(k))
		by := n1
		if i%2 > 0 {
			by = host{key: k}
		}
		return Records{Certs: []Signed{signCert(t, c, n1.key)}, Revokes: []Signed{revocation(t, c, "x", t0, by)}}
	}
	var err error
	for i := 0; i < maxKeys && err == nil; i++ {
		_, err = tab.AddAll(junk(i), t0)
	}
	if !errors.Is(err, ErrFull) {
		t.Fatalf("not full after %d: %v", len(tab.gone), err)
	}
	if len(tab.byID)+len(tab.gone) > maxKeys {
		t.Errorf("%d and %d keys", len(tab.byID), len(tab.gone))
	}
	if back := reread(t, tab, t0); back.Digest() != tab.Digest() {
		t.Error("a full table does not survive its file")
	}
	leave := revocation(t, n2.cert(0, 2), ReasonLeft, t0, n2)
	if ch, err := tab.AddRevoke(leave, t0); err != nil || len(ch.Left) != 1 {
		t.Errorf("leave: %+v, %v", ch, err)
	}
	if _, err := tab.AddRevoke(rootRevocation(t, newHost(77), t0), t0); err != nil {
		t.Errorf("the root key ends an unknown key: %v", err)
	}
	if ch, err := tab.AddRevoke(rootRevocation(t, n1, t0), t0); err != nil || len(ch.Removed) != 1 {
		t.Errorf("the root key ends the sponsor: %+v, %v", ch, err)
	}
	if _, err := tab.AddCert(signCert(t, newHost(5).cert(1, 5), n3.key), t0); err != nil || len(tab.gone) > 3 {
		t.Errorf("no room afterwards: %d revocations, %v", len(tab.gone), err)
	}
	if _, err := tab.AddAll(junk(0), t0); err == nil {
		t.Error("an ended sponsor goes on")
	}
	checkTable(t, tab)
}

// TestFullOfHosts: hosts that a thief of a sponsor's key admitted take room
// until the root key ended the sponsor and honest ones were renewed.
func TestFullOfHosts(t *testing.T) {
	tab, n1, _ := started(t)
	n3 := newHost(3)
	if _, err := tab.AddCert(n3.sponsorCert(t, 1), t0); err != nil {
		t.Fatal(err)
	}
	for i := len(tab.byID); i < MaxMembers; i++ {
		id := key(pub(numbered(i)))
		c := Cert{Node: cluster.NodeID(fmt.Sprintf("junk%d", i)), Issuer: pub(n1.key)}
		tab.byID[id] = &entry{claim: claim{id: id, cert: c}, ann: &Ann{WGPub: id}}
		tab.byNode[c.Node], tab.byWG[id] = id, id
	}
	tab.order = nil
	join := func(now time.Time) error {
		tab.Expire(now)
		_, err := tab.AddCert(signCert(t, newHost(5).cert(1, 5), n3.key), now)
		return err
	}
	if err := join(t0.Add(48 * time.Hour)); !errors.Is(err, ErrFull) {
		t.Errorf("while the sponsor stands: %v", err)
	}
	if _, err := tab.AddRevoke(rootRevocation(t, n1, t0.Add(48*time.Hour)), t0.Add(48*time.Hour)); err != nil {
		t.Fatal(err)
	}
	// Its own end made room for one key; that is taken again.
	id := key(pub(numbered(0)))
	tab.byID[id] = &entry{claim: claim{id: id, cert: Cert{Node: "junk0", Issuer: pub(n1.key)}}, ann: &Ann{WGPub: id}}
	tab.byNode["junk0"], tab.byWG[id], tab.order = id, id, nil
	if err := join(t0.Add(49 * time.Hour)); !errors.Is(err, ErrFull) {
		t.Errorf("before others could be renewed: %v", err)
	}
	if err := join(t0.Add(73 * time.Hour)); err != nil || tab.Len() != 2 {
		t.Errorf("a day after the sponsor's end: %d keys, %v", tab.Len(), err)
	}
}

// TestEndedSponsorRevokes: what a sponsor revoked counts for others only until
// the root key ends it, whatever the date, in whatever order the records come.
func TestEndedSponsorRevokes(t *testing.T) {
	n1, n2, n3, n4 := newHost(1), newHost(2), newHost(3), newHost(4)
	own, others := n2.cert(0, 2), n4.cert(1, 4)
	base := Records{
		Certs: []Signed{n1.sponsorCert(t, 0), n3.sponsorCert(t, 1), signCert(t, own, n1.key), signCert(t, others, n3.key)},
		Anns:  []Signed{n1.announce(t, 1), n2.announce(t, 1), n3.announce(t, 1), n4.announce(t, 1)},
	}
	end := rootRevocation(t, n1, t0.Add(time.Hour))
	revs := []Signed{revocation(t, own, "spite", t0, n1), revocation(t, others, "spite", t0, n1)}
	now := t0.Add(2 * time.Hour)
	early, late := crowded(t, base), crowded(t, base)
	for _, s := range revs {
		if _, err := early.AddRevoke(s, now); err != nil {
			t.Fatal(err)
		}
	}
	for _, tab := range []*Table{early, late} {
		if _, err := tab.AddRevoke(end, now); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range revs {
		if _, err := late.AddRevoke(s, now); !errors.Is(err, ErrNoIssuer) {
			t.Errorf("after the end: %v", err)
		}
	}
	for range 3 {
		_, _ = early.AddAll(late.Missing(early.Summary()), now)
		_, _ = late.AddAll(early.Missing(late.Summary()), now)
	}
	if early.Digest() != late.Digest() {
		t.Error("the order decides")
	}
	if _, ok := early.Member("n4"); !ok {
		t.Error("a host that another sponsor certified stays removed")
	}
	if back := reread(t, early, now); !back.Revoked(pub(n2.key)) || back.Digest() != early.Digest() {
		t.Error("who knows of a removal has forgotten it")
	}
	if _, ok := late.Member("n2"); !ok || late.Revoked(pub(n2.key)) {
		t.Error("a backdated revocation removed a host")
	}
	// Another sponsor vouches for the host.
	own.Since, own.Issued, own.Renewed = own.Issued, own.Issued+60, true
	for _, tab := range []*Table{early, late} {
		if _, err := tab.AddAll(Records{Certs: []Signed{signCert(t, own, n3.key)}, Anns: base.Anns}, now); err == nil {
			t.Error("n1 announces itself after its end")
		}
		if _, ok := tab.Member("n2"); !ok {
			t.Error("a renewed host stays removed")
		}
	}
	if early.Digest() != late.Digest() {
		t.Error("digests differ after the renewal")
	}
}

// TestRootEndsWhoLeft: a thief who signs the leave of a sponsor does not keep
// the root key from ending it; all hosts learn of that.
func TestRootEndsWhoLeft(t *testing.T) {
	a, n1, _ := started(t)
	leave := revocation(t, n1.cert(0, 1), ReasonLeft, t0, n1)
	if _, err := a.AddRevoke(leave, t0); err != nil {
		t.Fatal(err)
	}
	b := reread(t, a, t0)
	if ch, err := a.AddRevoke(rootRevocation(t, n1, t0), t0); err != nil || !ch.Stored {
		t.Fatalf("%+v, %v", ch, err)
	}
	if a.Digest() == b.Digest() {
		t.Error("nobody asks for the root key's word")
	}
	if _, err := b.AddAll(a.Missing(b.Summary()), t0); err != nil || a.Digest() != b.Digest() || !b.rootEnded(pub(n1.key)) {
		t.Errorf("the root key's word does not travel: %v", err)
	}
	if ch, err := b.AddRevoke(leave, t0); err != nil || ch.Stored {
		t.Errorf("a leave replaces it: %+v, %v", ch, err)
	}
}

// TestBackdatedClaims: a sponsor's key takes no name and no address that was
// given before it became a sponsor's.
func TestBackdatedClaims(t *testing.T) {
	tab, _, n2 := started(t)
	n3 := newHost(3)
	s := n3.cert(1, 1)
	s.Issued, s.Expires, s.Caps, s.Slice = t0.Unix()+100, 0, []string{CapSponsor}, Slices(network)[1]
	now := t0.Add(time.Hour)
	if _, err := tab.AddCert(signCert(t, s, rootKey), now); err != nil {
		t.Fatal(err)
	}
	evil := newHost(9)
	evil.node = n2.node
	c := evil.cert(1, 77)
	c.Issued, c.Since = t0.Unix()+200, 1
	if _, err := tab.AddCert(signCert(t, c, n3.key), now); !errors.Is(err, ErrFormat) {
		t.Errorf("older than its sponsor: %v", err)
	}
	c.Renewed, c.IP4 = true, n2.cert(0, 2).IP4
	if _, err := tab.AddCert(signCert(t, c, n3.key), now); !errors.Is(err, ErrConflict) {
		t.Errorf("renewal of what never was: %v", err)
	}
	if k, _ := tab.KeyOf("n2"); !k.Equal(pub(n2.key)) {
		t.Error("the name is stolen")
	}
}

// TestClaimedWireGuardKey: of two hosts that announce one WireGuard key the one
// with the better claim is a member, whichever came first.
func TestClaimedWireGuardKey(t *testing.T) {
	n1, n2, evil := newHost(1), newHost(2), newHost(3)
	late := evil.cert(0, 3)
	late.Issued++
	certs := Records{
		Certs: []Signed{n1.sponsorCert(t, 0), signCert(t, n2.cert(0, 2), n1.key), signCert(t, late, n1.key)},
		Anns:  []Signed{n1.announce(t, 1)},
	}
	x, next := evil.ann(7), evil.ann(6)
	x.WGPub = n2.ann(5).WGPub
	next.Next, next.NextAt = x.WGPub, t0.Unix()
	anns := []Signed{signAnn(t, next, evil.key), signAnn(t, x, evil.key), n2.announce(t, 5)}
	var first *Table
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {2, 0, 1}, {1, 2, 0}, {2, 1, 0}} {
		tab := crowded(t, certs)
		for _, i := range order {
			if _, err := tab.AddAnn(anns[i], t0); err != nil {
				t.Fatal(err)
			}
		}
		checkTable(t, tab)
		if first == nil {
			first = tab
		}
		if _, ok := tab.Member("n2"); !ok || tab.Digest() != first.Digest() || len(tab.Members()) != 2 || len(tab.Evidence()) != 1 {
			t.Errorf("order %v: n2 is a member: %t, %d members, %d pieces of evidence", order, ok, len(tab.Members()), len(tab.Evidence()))
		}
	}
	if _, ok := first.Member("n3"); ok {
		t.Error("the loser is a member")
	}
	if m, ok := first.Announced("n3"); !ok || m.Epoch != 7 {
		t.Errorf("the loser cannot start any more: %+v, %t", m, ok)
	}
	// The loser is back with the key that is free, or with its own.
	if ch, err := first.AddRevoke(revocation(t, n2.cert(0, 2), "x", t0, n1), t0); err != nil || len(ch.Joined) != 1 || len(ch.Removed) != 1 {
		t.Errorf("%+v, %v", ch, err)
	}
	checkTable(t, first)
}
