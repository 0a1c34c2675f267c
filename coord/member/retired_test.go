package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

// revocation returns a record that ends h's key, as its issuer writes it.
func revocation(t testing.TB, c Cert, reason string, at time.Time, by host) Signed {
	t.Helper()
	s, err := Revoke{
		Cluster: testCluster, IDPub: c.IDPub, Reason: reason, Issued: at.Unix(), Expires: RevokeUntil(c), Issuer: pub(by.key),
	}.Sign(by.key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// reread passes a table's records through their file.
func reread(t testing.TB, tab *Table, now time.Time) *Table {
	t.Helper()
	raw, err := json.Marshal(tab.Records())
	if err != nil {
		t.Fatal(err)
	}
	rs, err := DecodeRecords(raw)
	if err != nil {
		t.Fatal(err)
	}
	again := NewTable(verifier)
	if _, err := again.Restore(rs, now); err != nil {
		t.Fatal(err)
	}
	return again
}

func TestLeave(t *testing.T) {
	tab, n1, n2 := started(t)
	leave := revocation(t, n2.cert(0, 2), ReasonLeft, t0, n2)
	fresh := NewTable(verifier)
	if _, err := fresh.AddRevoke(leave, t0); !errors.Is(err, ErrNoCert) {
		t.Errorf("leave of a key without certificate: %v", err)
	}
	forged := revocation(t, n2.cert(0, 2), ReasonLeft, t0, n2)
	forged.Sig = make([]byte, 64)
	if _, err := tab.AddRevoke(forged, t0); !errors.Is(err, ErrSignature) {
		t.Errorf("forged leave: %v", err)
	}
	ch, err := tab.AddRevoke(leave, t0)
	if want := []cluster.NodeID{"n2"}; err != nil || !slices.Equal(ch.Left, want) || !slices.Equal(ch.Removed, want) {
		t.Fatalf("%+v, %v", ch, err)
	}
	if ch, err := tab.AddRevoke(leave, t0); err != nil || ch.Stored {
		t.Errorf("the same leave again: %+v, %v", ch, err)
	}
	// A sponsor, too, may go.
	if ch, err := tab.AddRevoke(revocation(t, n1.cert(0, 1), ReasonLeft, t0, n1), t0); err != nil || !slices.Equal(ch.Left, []cluster.NodeID{"n1"}) {
		t.Errorf("a sponsor leaves: %+v, %v", ch, err)
	}
	if tab.Sponsors() != 0 || len(tab.Members()) != 0 {
		t.Error("someone stayed")
	}
}

// TestRetired holds that what a removed host was stays known, to those that
// learn of it later as well, and across restarts.
func TestRetired(t *testing.T) {
	tab, n1, n2 := started(t)
	m, _ := tab.Member("n2")
	cert, _, _ := tab.Proof("n2")
	late := NewTable(verifier)
	rev := revocation(t, n2.cert(0, 2), "lost laptop", t0.Add(time.Minute), n1)
	if _, err := tab.AddRevoke(rev, t0.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	// Revocation first, certificate afterwards, in parts.
	for _, part := range tab.Missing(late.Summary()).Batches(1) {
		if _, err := late.AddAll(part, t0.Add(time.Minute)); err != nil && !errors.Is(err, ErrNoCert) {
			t.Fatal(err)
		}
	}
	if _, err := late.AddCert(cert, t0.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for name, tab := range map[string]*Table{"first": tab, "learned": late, "restarted": reread(t, tab, t0.Add(time.Hour))} {
		rs := tab.Retired()
		if len(rs) != 1 || rs[0].Node != "n2" || rs[0].Left || rs[0].Reason != "lost laptop" || !rs[0].At.Equal(t0.Add(time.Minute)) ||
			rs[0].Until.Before(t0.Add(DefaultCertLife+ExpiredGrace)) || !rs[0].Cert.IDPub.Equal(pub(n2.key)) {
			t.Errorf("%s: %+v", name, rs)
		}
		if !tab.Taken(m.IP4) || !tab.Taken(m.IP6) {
			t.Errorf("%s: the address is free", name)
		}
		if k, ok := tab.KeyOf("n2"); !ok || !k.Equal(pub(n2.key)) {
			t.Errorf("%s: key %x, %t", name, k, ok)
		}
		if got, ok := tab.Revocation("n2"); !ok || !got.Equal(rev) {
			t.Errorf("%s: no revocation", name)
		}
		if _, ok := tab.Member("n2"); ok {
			t.Errorf("%s: still a member", name)
		}
		if _, ok := memberAt(tab, m.IP4); ok {
			t.Errorf("%s: still has the address", name)
		}
		if _, ok := tab.Cert("n2"); ok {
			t.Errorf("%s: still certified", name)
		}
	}
	if tab.Digest() != late.Digest() {
		t.Error("digests differ")
	}
	// Another key takes the name all the same if a sponsor gave it unknowingly:
	// the living come before the dead, on every host alike.
	heir := newHost(5)
	c := heir.cert(0, 2)
	c.Node, c.Issued = "n2", c.Issued+30
	for _, tab := range []*Table{tab, late} {
		if _, err := tab.AddCert(signCert(t, c, n1.key), t0.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if got, ok := tab.Cert("n2"); !ok || !got.IDPub.Equal(pub(heir.key)) || tab.Lost("n2") {
			t.Errorf("%+v, %t", got, ok)
		}
	}
}

// TestRevocationEnds holds that a revocation is forgotten when, and only when,
// no certificate of its key can come back, and that hosts whose clocks differ
// a little do not quarrel.
func TestRevocationEnds(t *testing.T) {
	a, n1, n2 := started(t)
	cert, ann, _ := a.Proof("n2")
	c := n2.cert(0, 2)
	if _, err := a.AddRevoke(revocation(t, c, "lost", t0, n1), t0); err != nil {
		t.Fatal(err)
	}
	b := reread(t, a, t0)
	end := time.Unix(RevokeUntil(c), 0)
	before, after := end.Add(-time.Second), end.Add(time.Second)
	a.Expire(before)
	b.Expire(after)
	if a.Digest() == b.Digest() {
		t.Error("the digest holds what is over")
	}
	if ch, err := b.AddAll(a.Missing(b.Summary()), after); err != nil || ch.Stored {
		t.Errorf("told of what is over: %+v, %v", ch, err)
	}
	if rs := b.Missing(nil); len(rs.Revokes) != 0 || !b.Revoked(pub(n2.key)) {
		t.Error("what is over is told, or forgotten at once")
	}
	a.Expire(after)
	if a.Digest() != b.Digest() {
		t.Error("digests differ when both clocks have passed the end")
	}
	gone := end.Add(tombLinger)
	if ch := a.Expire(gone); !ch.Stored || a.Revoked(pub(n2.key)) || a.Taken(c.IP4) || len(a.Retired()) != 0 {
		t.Errorf("not forgotten: %+v", ch)
	}
	if a.Digest() != b.Digest() {
		t.Error("forgetting changed the digest")
	}
	if ch, err := a.AddAll(Records{Certs: []Signed{cert}, Anns: []Signed{ann}}, gone); err == nil || ch.Stored || a.Len() != 1 {
		t.Errorf("the removed host is back: %+v, %v", ch, err)
	}
	if ch, err := a.AddRevoke(revocation(t, c, "lost", t0, n1), gone); !errors.Is(err, ErrNoCert) || ch.Stored {
		t.Errorf("an old revocation is kept again: %+v, %v", ch, err)
	}
	// Whoever still holds the host, having been away, lets it go.
	away, _, _ := started(t)
	if ch, err := away.AddRevoke(revocation(t, c, "lost", t0, n1), gone); err != nil || len(ch.Removed) != 1 {
		t.Errorf("after a long absence: %+v, %v", ch, err)
	}
}

// TestRevocationOutlastsRenewal: a certificate that another sponsor renewed
// while the key was being revoked keeps the revocation alive for as long.
func TestRevocationOutlastsRenewal(t *testing.T) {
	tab, n1, n2 := started(t)
	c := n2.cert(0, 2)
	if _, err := tab.AddRevoke(revocation(t, c, "lost", t0, n1), t0); err != nil {
		t.Fatal(err)
	}
	at := t0.Add(20 * 24 * time.Hour)
	c.Issued, c.Since, c.Expires = at.Unix(), c.Issued, at.Add(DefaultCertLife).Unix()
	if ch, err := tab.AddCert(signCert(t, c, n1.key), at); err != nil || !ch.Stored || tab.Len() != 1 {
		t.Fatalf("%+v, %v", ch, err)
	}
	tab.Expire(time.Unix(c.Expires, 0).Add(ExpiredGrace))
	if !tab.Revoked(pub(n2.key)) {
		t.Error("the revocation ended before the certificate")
	}
	// Of two revocations the one that binds for longer is kept.
	longer := revocation(t, c, "lost", at, n1)
	if ch, err := tab.AddRevoke(longer, at); err != nil || !ch.Stored {
		t.Errorf("%+v, %v", ch, err)
	}
	if rec, _ := tab.Revocation("n2"); !rec.Equal(longer) {
		t.Error("the shorter was kept")
	}
}

// TestWrongClockAtStart: a host that starts with a wrong clock does not take
// back whom it removed, and has forgotten nobody when the clock is right.
func TestWrongClockAtStart(t *testing.T) {
	tab, n1, n2 := started(t)
	if _, err := tab.AddRevoke(revocation(t, n2.cert(0, 2), "lost", t0, n1), t0); err != nil {
		t.Fatal(err)
	}
	for _, clock := range []time.Time{time.Unix(60, 0), t0.AddDate(50, 0, 0)} {
		back := reread(t, tab, clock)
		if !back.Revoked(pub(n2.key)) || len(back.Members()) != 1 || back.Len() != 1 {
			t.Errorf("at %s the removed host is back", clock)
		}
		again := reread(t, back, t0.Add(time.Hour))
		if again.Digest() != tab.Digest() {
			t.Errorf("after %s something is lost", clock)
		}
	}
}

// TestOldRecordsStayAtHome holds that hosts keep whom they know though nobody
// renews it, stop telling others, and agree with those who never knew it.
func TestOldRecordsStayAtHome(t *testing.T) {
	tab, n1, _ := started(t)
	now := t0.Add(DefaultCertLife + ExpiredGrace + time.Minute)
	tab.Expire(now)
	if len(tab.Members()) != 2 {
		t.Fatal("an expired member was dropped")
	}
	other := NewTable(verifier)
	if _, err := other.AddAll(Records{Certs: []Signed{n1.sponsorCert(t, 0)}}, now); err != nil {
		t.Fatal(err)
	}
	rs := tab.Missing(other.Summary())
	if len(rs.Certs) != 0 || len(rs.Anns) != 0 || tab.Digest() != other.Digest() {
		t.Errorf("told: %+v", rs)
	}
	if back := reread(t, tab, now); len(back.Members()) != 2 || back.Digest() != tab.Digest() {
		t.Error("a restart changed what is known")
	}
	if c := tab.Chain("n2"); len(c.Certs) != 1 || len(c.Anns) != 0 {
		t.Errorf("a newcomer is told %+v", c)
	}
}

// TestOrphans: the end of a sponsor leaves its members with those who know
// them; another sponsor renews them at their address.
func TestOrphans(t *testing.T) {
	tab, n1, n2 := started(t)
	n3 := newHost(3)
	if _, err := tab.AddCert(n3.sponsorCert(t, 1), t0); err != nil {
		t.Fatal(err)
	}
	end, err := Revoke{Cluster: testCluster, IDPub: pub(n1.key), Reason: "stolen", Issued: t0.Unix(), Issuer: pub(rootKey)}.Sign(rootKey)
	if err != nil {
		t.Fatal(err)
	}
	if ch, err := tab.AddRevoke(end, t0); err != nil || !slices.Equal(ch.Removed, []cluster.NodeID{"n1"}) {
		t.Fatalf("%+v, %v", ch, err)
	}
	if _, ok := tab.Member("n2"); !ok || !tab.RenewDue("n2", t0) || tab.RenewDue("n3", t0) {
		t.Fatal("the orphan is gone, or content")
	}
	if back := reread(t, tab, t0); !reflect.DeepEqual(back.Members(), tab.Members()) || back.Digest() != tab.Digest() {
		t.Error("a restart lost the orphan")
	}
	if _, err := tab.AddCert(signCert(t, newHost(4).cert(0, 4), n1.key), t0); !errors.Is(err, ErrNoIssuer) {
		t.Errorf("certificate of a revoked sponsor: %v", err)
	}
	fresh := NewTable(verifier)
	if _, err := fresh.AddAll(tab.Missing(nil), t0); err != nil {
		t.Fatal(err)
	}
	if fresh.Digest() != tab.Digest() || len(fresh.Members()) != 0 || fresh.Len() != 1 {
		t.Errorf("a newcomer holds %d keys", fresh.Len())
	}
	c := n2.cert(0, 2)
	c.Since, c.Issued, c.Expires = c.Issued, c.Issued+60, c.Expires+60
	if _, err := tab.AddCert(signCert(t, c, n3.key), t0.Add(time.Hour)); !errors.Is(err, ErrSlice) {
		t.Errorf("address of another slice: %v", err)
	}
	c.Renewed = true
	if ch, err := tab.AddCert(signCert(t, c, n3.key), t0.Add(time.Hour)); err != nil || !slices.Equal(ch.Renewed, []cluster.NodeID{"n2"}) {
		t.Fatalf("%+v, %v", ch, err)
	}
	if _, err := fresh.AddAll(tab.Missing(fresh.Summary()), t0.Add(time.Hour)); err != nil || fresh.Digest() != tab.Digest() {
		t.Errorf("the renewed one does not travel: %v", err)
	}
	if m, ok := fresh.Member("n2"); !ok || m.IP4 != c.IP4 || m.CertIssued != c.Issued || m.CertExpires != c.Expires {
		t.Errorf("%+v, %t", m, ok)
	}
}

// TestSliceOwnerWins: who renews what lies in another's slice cannot take an
// address there, however early the claim says it is.
func TestSliceOwnerWins(t *testing.T) {
	tab, _, n2 := started(t)
	n3, thief := newHost(3), newHost(4)
	if _, err := tab.AddCert(n3.sponsorCert(t, 1), t0); err != nil {
		t.Fatal(err)
	}
	c := thief.cert(0, 2)
	c.Renewed, c.Since = true, 1
	if ch, err := tab.AddCert(signCert(t, c, n3.key), t0); err != nil || len(ch.Evidence) != 1 {
		t.Fatalf("%+v, %v", ch, err)
	}
	if m, ok := memberAt(tab, n2.cert(0, 2).IP4); !ok || m.Node != "n2" || !tab.Lost("n4") {
		t.Errorf("the address is %s's", m.Node)
	}
}

func TestWhoMayEndWhom(t *testing.T) {
	tab, n1, n2 := started(t)
	n3 := newHost(3)
	if _, err := tab.AddCert(n3.sponsorCert(t, 1), t0); err != nil {
		t.Fatal(err)
	}
	// A sponsor's word against a key that turns out to be a sponsor's.
	early := NewTable(verifier)
	if _, err := early.AddCert(n1.sponsorCert(t, 0), t0); err != nil {
		t.Fatal(err)
	}
	c := n3.cert(1, 1)
	c.Expires = 0
	c.Expires = t0.Add(DefaultCertLife).Unix()
	if _, err := early.AddRevoke(revocation(t, c, "no", t0, n1), t0); !errors.Is(err, ErrNoCert) {
		t.Errorf("a sponsor ends a key that nobody certified: %v", err)
	}
	if _, err := early.AddCert(n3.sponsorCert(t, 1), t0); err != nil || early.Revoked(pub(n3.key)) || early.Sponsors() != 2 {
		t.Errorf("a sponsor ended another by being faster: %v", err)
	}
	// A sponsor that left: whom it removed before stays removed, for newcomers
	// too; what it signs afterwards is void.
	rev := revocation(t, n2.cert(0, 2), "lost", t0.Add(time.Minute), n1)
	leave := revocation(t, n1.cert(0, 1), ReasonLeft, t0.Add(2*time.Minute), n1)
	cert2, ann2, _ := tab.Proof("n2")
	for _, s := range []Signed{rev, leave} {
		if _, err := tab.AddRevoke(s, t0.Add(3*time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	fresh := NewTable(verifier)
	for range 2 {
		_, _ = fresh.AddAll(tab.Missing(fresh.Summary()), t0.Add(3*time.Minute))
	}
	_, _ = fresh.AddAll(Records{Certs: []Signed{cert2}, Anns: []Signed{ann2}}, t0.Add(3*time.Minute))
	if !fresh.Revoked(pub(n2.key)) || fresh.Digest() != tab.Digest() {
		t.Error("a removed host is back, since its remover left")
	}
	n5 := newHost(5)
	if _, err := tab.AddCert(signCert(t, n5.cert(1, 5), n3.key), t0); err != nil {
		t.Fatal(err)
	}
	if _, err := tab.AddRevoke(revocation(t, n5.cert(1, 5), "spite", t0.Add(10*time.Minute), n1), t0.Add(11*time.Minute)); !errors.Is(err, ErrNoIssuer) {
		t.Errorf("a sponsor that left ends a host: %v", err)
	}
}

func TestEvidenceSurvivesARestart(t *testing.T) {
	tab, n1, n2 := started(t)
	a := n2.ann(1)
	a.Priority = 7
	ch, err := tab.AddAnn(signAnn(t, a, n2.key), t0)
	if !errors.Is(err, ErrForked) || len(ch.Evidence) != 1 || !ch.Stored || ch.Evidence[0].At != t0.Unix() {
		t.Fatalf("%+v, %v", ch, err)
	}
	n3 := newHost(3)
	c := n3.cert(0, 2)
	c.Issued++
	if _, err := tab.AddCert(signCert(t, c, n1.key), t0.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	back := reread(t, tab, t0.Add(time.Hour))
	if len(back.Evidence()) != 2 || !reflect.DeepEqual(back.Evidence(), tab.Evidence()) {
		t.Errorf("%+v, want %+v", back.Evidence(), tab.Evidence())
	}
	if rs := tab.Missing(nil); len(rs.Evidence) != 0 {
		t.Error("evidence travels")
	}
	fresh := NewTable(verifier)
	if _, err := fresh.AddAll(tab.Records(), t0.Add(time.Hour)); err != nil || len(fresh.Evidence()) != 1 {
		t.Errorf("evidence that others claim was taken over: %d, %v", len(fresh.Evidence()), err)
	}
}

func TestWireGuardKeysAreNotShared(t *testing.T) {
	tab, n1, n2 := started(t)
	next := n1.ann(2)
	next.Next, next.NextAt = [32]byte{42}, t0.Unix()+60
	if ch, err := tab.AddAnn(signAnn(t, next, n1.key), t0); err != nil || len(ch.Rekeyed) != 0 {
		t.Fatalf("%+v, %v", ch, err)
	}
	m, _ := tab.Member("n1")
	if len(m.NextWG) != 32 || m.NextWG[0] != 42 || m.NextAt != t0.Unix()+60 {
		t.Errorf("%+v", m)
	}
	// Who claims that key as its own next one takes nothing from the better
	// claim, and nobody hears of a next key that another has.
	a := n2.ann(2)
	a.Next, a.NextAt = [32]byte{42}, 9
	if _, err := tab.AddAnn(signAnn(t, a, n2.key), t0); err != nil {
		t.Fatal(err)
	}
	better, worse := cluster.NodeID("n1"), cluster.NodeID("n2")
	if m, _ := tab.Member(better); m.NextAt == 0 {
		t.Error("the better claim lost its next key")
	}
	if m, _ := tab.Member(worse); m.NextAt != 0 || m.NextWG != nil {
		t.Error("two members have one next key")
	}
	a = n2.ann(3)
	a.Next, a.NextAt = next.WGPub, 9
	if _, err := tab.AddAnn(signAnn(t, a, n2.key), t0); err != nil {
		t.Fatal(err)
	}
	if m, _ := tab.Member(worse); m.NextAt != 0 {
		t.Error("a member's next key is another's present one")
	}
	done := n1.ann(3)
	done.WGPub = [32]byte{42}
	if ch, err := tab.AddAnn(signAnn(t, done, n1.key), t0); err != nil || !slices.Equal(ch.Rekeyed, []cluster.NodeID{"n1"}) {
		t.Errorf("%+v, %v", ch, err)
	}
	a = n2.ann(4)
	a.WGPub = next.WGPub // free again
	if _, err := tab.AddAnn(signAnn(t, a, n2.key), t0); err != nil {
		t.Errorf("a key that nobody has any more: %v", err)
	}
	if _, err := tab.AddRevoke(signRevoke(t, pub(n2.key), n1.key), t0); err != nil {
		t.Fatal(err)
	}
	if len(tab.byWG) != 1 {
		t.Errorf("%d WireGuard keys of 1 member", len(tab.byWG))
	}
}

// world makes random records of a few sponsors and many members: renewals by
// any sponsor, two hosts with one name or address, leaves, removals, the end
// of a sponsor.
func world(t testing.TB, r *rand.Rand) []Records {
	sponsors := []host{newHost(1), newHost(2), newHost(3)}
	var out []Records
	add := func(rs Records) { out = append(out, rs) }
	for i, s := range sponsors {
		add(Records{Certs: []Signed{s.sponsorCert(t, i)}, Anns: []Signed{s.announce(t, 1)}})
	}
	for n := byte(10); n < 30; n++ {
		h := newHost(n)
		i := r.IntN(3)
		c := h.cert(i, n)
		c.Issued += int64(r.IntN(5))
		switch r.IntN(8) {
		case 0:
			c.Node = cluster.NodeID(fmt.Sprintf("n%d", 10+r.IntN(20)))
		case 1:
			c.IP4 = addr4(v4(Slices(network)[i].Addr()) + uint32(10+r.IntN(20)))
		}
		add(Records{Certs: []Signed{signCert(t, c, sponsors[i].key)}})
		for e := range 1 + r.Uint64N(3) {
			a := h.ann(e + 1)
			switch r.IntN(6) {
			case 0:
				a.WGPub = newHost(byte(10 + r.IntN(20))).ann(1).WGPub
			case 1:
				if k := byte(10 + r.IntN(20)); k != n {
					a.Next, a.NextAt = newHost(k).ann(1).WGPub, t0.Unix()
				}
			}
			add(Records{Anns: []Signed{signAnn(t, a, h.key)}})
		}
		if k := r.IntN(3); r.IntN(3) == 0 {
			c.Since, c.Issued, c.Serial, c.Renewed = c.Issued, c.Issued+100, 2, k != i
			add(Records{Certs: []Signed{signCert(t, c, sponsors[k].key)}})
		}
		switch r.IntN(6) {
		case 0:
			add(Records{Revokes: []Signed{revocation(t, c, ReasonLeft, t0, h)}})
		case 1:
			add(Records{Revokes: []Signed{revocation(t, c, "lost", t0, sponsors[r.IntN(3)])}})
		}
	}
	if r.IntN(2) == 0 {
		add(Records{Revokes: []Signed{signRevoke(t, pub(sponsors[r.IntN(3)].key), rootKey)}})
	}
	if s := sponsors[r.IntN(3)]; r.IntN(4) == 0 {
		add(Records{Revokes: []Signed{revocation(t, s.cert(0, 1), ReasonLeft, t0, s)}})
	}
	return out
}

// TestOrderDoesNotMatter gives the records of a world to two tables in random
// orders, then lets them exchange what the other lacks.
func TestOrderDoesNotMatter(t *testing.T) {
	worlds := 12
	if os.Getenv("SKEIN_PROVE") != "" {
		worlds = 2000
	}
	now := t0.Add(10 * time.Minute)
	for seed := range uint64(worlds) {
		r := rand.New(rand.NewPCG(seed, 11))
		records := world(t, r)
		tabs := []*Table{NewTable(verifier), NewTable(verifier), NewTable(verifier)}
		for _, tab := range tabs {
			for _, i := range r.Perm(len(records)) {
				if r.IntN(4) > 0 {
					_, _ = tab.AddAll(records[i], now)
				}
			}
		}
		rounds := 0
		for ; rounds < 12; rounds++ {
			if tabs[0].Digest() == tabs[1].Digest() && tabs[1].Digest() == tabs[2].Digest() {
				break
			}
			for i, tab := range tabs {
				for _, part := range tabs[(i+1)%3].Missing(tab.Summary()).Batches(1 + r.IntN(8)) {
					_, _ = tab.AddAll(part, now)
				}
			}
		}
		if rounds == 12 {
			t.Errorf("seed %d: no agreement", seed)
		}
		for i, tab := range tabs {
			checkTable(t, tab)
			if back := reread(t, tab, now); back.Digest() != tab.Digest() || !reflect.DeepEqual(back.Members(), tab.Members()) {
				t.Errorf("seed %d: a restart of host %d changed what it knows", seed, i)
			}
		}
	}
}

// checkTable holds that a table's indexes say what its entries say.
func checkTable(t testing.TB, tab *Table) {
	t.Helper()
	lost := 0
	for id, e := range tab.byID {
		if tab.gone[id] != nil {
			t.Errorf("%s is certified and revoked", e.cert.Node)
		}
		if e.noIP4 {
			lost++
		} else if tab.byIP[e.cert.IP4] != id {
			t.Errorf("%s does not have its address", e.cert.Node)
		}
		if tab.byNode[e.cert.Node] != id || tab.byIP[e.cert.IP6] != id {
			t.Errorf("%s does not have its name or IPv6 address", e.cert.Node)
		}
		if e.ann != nil && (tab.byWG[e.ann.WGPub] == id) == e.noWG {
			t.Errorf("%s has its WireGuard key and has it not", e.cert.Node)
		}
	}
	if lost != tab.lost {
		t.Errorf("%d lost addresses, counted %d", lost, tab.lost)
	}
	for n, id := range tab.byNode {
		if tab.byID[id] == nil && tab.gone[id] == nil {
			t.Errorf("%s is nobody's", n)
		}
	}
	for ip, id := range tab.byIP {
		if tab.byID[id] == nil && tab.gone[id] == nil {
			t.Errorf("%s is nobody's", ip)
		}
	}
	for wg, id := range tab.byWG {
		holder := tab.byID[id]
		if holder == nil || holder.ann.WGPub != wg {
			t.Error("a WireGuard key is nobody's")
			continue
		}
		for _, e := range tab.byID {
			if e.ann != nil && e != holder && e.ann.WGPub == wg && tab.outranks(&e.claim, &holder.claim) {
				t.Errorf("%s has a WireGuard key to which %s has the better claim", holder.cert.Node, e.cert.Node)
			}
		}
	}
}

func TestBatches(t *testing.T) {
	tab, n1, n2 := started(t)
	if _, err := tab.AddRevoke(revocation(t, n2.cert(0, 2), ReasonLeft, t0, n2), t0); err != nil {
		t.Fatal(err)
	}
	for n := byte(10); n < 40; n++ {
		h := newHost(n)
		if _, err := tab.AddAll(Records{Certs: []Signed{signCert(t, h.cert(0, n), n1.key)}, Anns: []Signed{h.announce(t, 1)}}, t0); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{1, 2, 7, 1000} {
		fresh := NewTable(verifier)
		for _, part := range tab.Records().Batches(n) {
			if size := len(part.Certs) + len(part.Revokes) + len(part.Anns); size > max(n, 2) {
				t.Errorf("%d records in a batch of %d", size, n)
			}
			if _, err := fresh.AddAll(part, t0); err != nil {
				t.Errorf("batches of %d: %v", n, err)
			}
		}
		if fresh.Digest() != tab.Digest() {
			t.Errorf("batches of %d lost something", n)
		}
	}
}
