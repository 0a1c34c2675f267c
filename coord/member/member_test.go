package member

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

var (
	testCluster = ClusterID{1, 2, 3}
	network     = netip.MustParsePrefix("10.77.0.0/16")
	t0          = time.Unix(1_700_000_000, 0)
	rootKey     = testKey(200)
	verifier    = Verifier{Cluster: testCluster, RootPub: pub(rootKey)}
)

// memberAt is the member with a mesh address, of either family.
func memberAt(tab *Table, ip netip.Addr) (cluster.Member, bool) { return tab.complete(tab.byIP[ip]) }

func testKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

func pub(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

// host is a test host with its key.
type host struct {
	node cluster.NodeID
	key  ed25519.PrivateKey
}

func newHost(n byte) host { return host{cluster.NodeID(fmt.Sprintf("n%d", n)), testKey(n)} }

// cert returns h's certificate at the last byte's address of slice i.
func (h host) cert(i int, last byte) Cert {
	s := Slices(network)[i]
	return Cert{
		Cluster: testCluster, Node: h.node, IDPub: pub(h.key), IP4: addr4(v4(s.Addr()) + uint32(last)),
		IP6: ULA(testCluster, pub(h.key)), Serial: 1, Issued: t0.Unix(), Expires: t0.Add(DefaultCertLife).Unix(),
	}
}

func (h host) sponsorCert(t testing.TB, i int) Signed {
	c := h.cert(i, 1)
	c.Caps, c.Slice, c.Expires = []string{CapSponsor}, Slices(network)[i], 0
	return signCert(t, c, rootKey)
}

func signCert(t testing.TB, c Cert, by ed25519.PrivateKey) Signed {
	t.Helper()
	c.Issuer = pub(by)
	s, err := c.Sign(by)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (h host) ann(epoch uint64) Ann {
	return Ann{
		IDPub: pub(h.key), WGPub: [32]byte(pub(h.key)), Epoch: epoch, Issued: t0.Unix(), Expires: t0.Add(time.Hour).Unix(),
		Endpoints: []netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:51820")}, Zone: "fsn", Priority: 10,
	}
}

func (h host) announce(t testing.TB, epoch uint64) Signed {
	return signAnn(t, h.ann(epoch), h.key)
}

func signAnn(t testing.TB, a Ann, by ed25519.PrivateKey) Signed {
	t.Helper()
	s, err := a.Sign(by)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func signRevoke(t testing.TB, id ed25519.PublicKey, by ed25519.PrivateKey) Signed {
	t.Helper()
	r := Revoke{Cluster: testCluster, IDPub: id, Reason: "lost", Issued: t0.Unix(), Issuer: pub(by)}
	if !by.Equal(rootKey) {
		r.Expires = t0.Add(DefaultCertLife + ExpiredGrace + 24*time.Hour).Unix()
	}
	s, err := r.Sign(by)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// started returns a table with sponsor n1 (slice 0) and member n2.
func started(t testing.TB) (*Table, host, host) {
	t.Helper()
	tab, n1, n2 := NewTable(verifier), newHost(1), newHost(2)
	ch, err := tab.AddAll(Records{
		Certs: []Signed{signCert(t, n2.cert(0, 2), n1.key), n1.sponsorCert(t, 0)},
		Anns:  []Signed{n1.announce(t, 1), n2.announce(t, 1)},
	}, t0)
	if err != nil {
		t.Fatal(err)
	}
	if want := []cluster.NodeID{"n1", "n2"}; !slices.Equal(ch.Joined, want) || !ch.Stored {
		t.Fatalf("change %+v, want %v joined", ch, want)
	}
	return tab, n1, n2
}

func TestTableMembers(t *testing.T) {
	tab, n1, n2 := started(t)
	ms := tab.Members()
	if len(ms) != 2 || ms[0].Node != "n1" || ms[1].Node != "n2" {
		t.Fatalf("members %+v", ms)
	}
	m := ms[1]
	if m.IP4 != netip.MustParseAddr("10.77.0.2") || m.IP6 != ULA(testCluster, pub(n2.key)) || m.Zone != "fsn" || m.Priority != 10 ||
		!bytes.Equal(m.IDPub, pub(n2.key)) || len(m.Endpoints) != 1 || m.Epoch != 1 {
		t.Errorf("member %+v", m)
	}
	if !slices.Equal(ms[0].Caps, []string{CapSponsor}) || len(m.Caps) != 0 {
		t.Errorf("caps %v and %v", ms[0].Caps, m.Caps)
	}
	for _, ip := range []netip.Addr{m.IP4, m.IP6} {
		if got, ok := memberAt(tab, ip); !ok || got.Node != "n2" {
			t.Errorf("%s: %+v, %t", ip, got, ok)
		}
	}
	if _, ok := memberAt(tab, netip.MustParseAddr("10.77.0.3")); ok {
		t.Error("a stranger's address has a member")
	}
	if got, ok := tab.MemberByKey(pub(n1.key)); !ok || got.Node != "n1" {
		t.Error("no member by key")
	}
	if _, ok := tab.MemberByKey(nil); ok {
		t.Error("a member without key")
	}
	m.Endpoints[0] = netip.AddrPort{}
	if again, _ := tab.Member("n2"); !again.Endpoints[0].IsValid() {
		t.Error("a caller changed the table")
	}
	before := tab.Digest()
	ch, err := tab.AddAll(tab.Records(), t0)
	if err != nil || ch.Stored || !ch.Empty() || tab.Digest() != before {
		t.Errorf("the same records again: %+v, %v", ch, err)
	}
}

func TestRefusedCerts(t *testing.T) {
	n3, stranger := newHost(3), newHost(9)
	with := func(f func(*Cert)) Cert {
		c := n3.cert(0, 3)
		f(&c)
		return c
	}
	for name, c := range map[string]struct {
		cert Cert
		by   ed25519.PrivateKey
		want error
	}{
		"foreign cluster":    {with(func(c *Cert) { c.Cluster[0]++; c.IP6 = ULA(c.Cluster, c.IDPub) }), testKey(1), ErrCluster},
		"unknown issuer":     {n3.cert(0, 3), stranger.key, ErrNoIssuer},
		"self-signed":        {n3.cert(0, 3), n3.key, ErrNoIssuer},
		"issuer no sponsor":  {n3.cert(0, 3), testKey(2), ErrNoIssuer},
		"outside the slice":  {n3.cert(1, 3), testKey(1), ErrSlice},
		"sponsor by sponsor": {with(func(c *Cert) { c.Caps, c.Slice = []string{CapSponsor}, Slices(network)[0] }), testKey(1), ErrNoIssuer},
		"no expiry":          {with(func(c *Cert) { c.Expires = 0 }), testKey(1), ErrFormat},
		"future":             {with(func(c *Cert) { c.Issued += 3600 }), testKey(1), ErrFuture},
		"before its sponsor": {with(func(c *Cert) { c.Issued-- }), testKey(1), ErrFormat},
		"node id taken":      {with(func(c *Cert) { c.Node, c.Issued = "n2", t0.Unix()+1 }), testKey(1), ErrConflict},
	} {
		tab, _, _ := started(t)
		before, members := tab.Digest(), tab.Members()
		ch, err := tab.AddCert(signCert(t, c.cert, c.by), t0.Add(time.Minute))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if (ch.Stored && len(ch.Evidence) == 0) || tab.Digest() != before || !reflect.DeepEqual(tab.Members(), members) {
			t.Errorf("%s: the table changed", name)
		}
	}
}

// No host is certified under a name of outside workers.
func TestCertsOfOutsideNames(t *testing.T) {
	for _, name := range []cluster.NodeID{cluster.OutsideOthers, cluster.OutsideID([]byte("key"))} {
		c := newHost(3).cert(0, 3)
		if c.Node = name; c.validate() == nil {
			t.Errorf("%s is signed", name)
		}
		c.Node = cluster.NodeID(strings.Replace(string(name), "w-", "h-", 1))
		s := signCert(t, c, testKey(1))
		s.Bytes = bytes.Replace(s.Bytes, []byte("h-"), []byte("w-"), 1)
		if _, err := ParseCert(s); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "outside workers") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExpiredCertsTravelForAWhile(t *testing.T) {
	tab, n1, _ := started(t)
	cert := signCert(t, newHost(3).cert(0, 3), n1.key)
	end := t0.Add(DefaultCertLife + ExpiredGrace)
	if _, err := tab.AddCert(cert, end); !errors.Is(err, ErrExpired) {
		t.Errorf("at the end of the grace: %v", err)
	}
	if _, err := tab.AddCert(cert, end.Add(-time.Second)); err != nil {
		t.Errorf("within the grace: %v", err)
	}
}

// TestStolenAddress: a certificate at another host's address costs its host the
// address, not the other.
func TestStolenAddress(t *testing.T) {
	for name, ip := range map[string]string{"a member's": "10.77.0.2", "the sponsor's": "10.77.0.1"} {
		tab, n1, _ := started(t)
		addr := netip.MustParseAddr(ip)
		owner, _ := memberAt(tab, addr)
		n3 := newHost(3)
		c := n3.cert(0, 3)
		c.IP4, c.Issued = addr, t0.Unix()+1
		ch, err := tab.AddAll(Records{Certs: []Signed{signCert(t, c, n1.key)}, Anns: []Signed{n3.announce(t, 1)}}, t0.Add(time.Minute))
		if err != nil || len(ch.Evidence) != 1 || ch.Evidence[0].Node != owner.Node {
			t.Fatalf("%s: %+v, %v", name, ch, err)
		}
		if m, ok := memberAt(tab, addr); !ok || m.Node != owner.Node {
			t.Errorf("%s address is now %s's", name, m.Node)
		}
		m, ok := tab.Member("n3")
		if !ok || m.IP4.IsValid() || !m.IP6.IsValid() || !tab.Lost("n3") || !tab.RenewDue("n3", t0) {
			t.Errorf("%s: the loser is %+v", name, m)
		}
		// A renewal at a free address ends it.
		c.IP4, c.Issued, c.Since = n3.cert(0, 3).IP4, c.Issued+1, c.Issued+1
		if ch, err := tab.AddCert(signCert(t, c, n1.key), t0.Add(time.Minute)); err != nil || !slices.Equal(ch.Renewed, []cluster.NodeID{"n3"}) {
			t.Errorf("%s: renewal: %+v, %v", name, ch, err)
		}
		if m, _ := tab.Member("n3"); m.IP4 != c.IP4 || tab.Lost("n3") || tab.lost != 0 {
			t.Errorf("%s: after renewal %+v", name, m)
		}
	}
}

func TestForgedRecords(t *testing.T) {
	tab, n1, n2 := started(t)
	n3 := newHost(3)
	// Content that names an issuer who did not sign it.
	c := n3.cert(0, 3)
	c.Issuer, c.Since = pub(n1.key), c.Issued
	raw, err := c.encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Signed{
		"other key":    {raw, ed25519.Sign(n3.key, append([]byte(certDomain), raw...))},
		"other domain": {raw, ed25519.Sign(n1.key, append([]byte(annDomain), raw...))},
		"no domain":    {raw, ed25519.Sign(n1.key, raw)},
		"no signature": {raw, make([]byte, 64)},
	} {
		if _, err := tab.AddCert(s, t0); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	root := n3.cert(2, 3)
	root.Issuer, root.Since = pub(rootKey), root.Issued
	raw, _ = root.encode()
	if _, err := tab.AddCert(Signed{raw, ed25519.Sign(n1.key, append([]byte(certDomain), raw...))}, t0); !errors.Is(err, ErrSignature) {
		t.Errorf("forged root signature: %v", err)
	}
	good := n2.announce(t, 2)
	bad := Signed{slices.Clone(good.Bytes), good.Sig}
	bad.Bytes[70] ^= 1
	if _, err := tab.AddAnn(bad, t0); err == nil {
		t.Error("a changed announcement was accepted")
	}
	if _, err := n3.ann(1).Sign(n1.key); !errors.Is(err, ErrSignature) {
		t.Errorf("signed for another host: %v", err)
	}
}

func TestAnnouncements(t *testing.T) {
	tab, _, n2 := started(t)
	if _, err := tab.AddAnn(newHost(3).announce(t, 1), t0); !errors.Is(err, ErrNoCert) {
		t.Errorf("without certificate: %v", err)
	}
	ch, err := tab.AddAnn(n2.announce(t, 3), t0)
	if err != nil || !slices.Equal(ch.Updated, []cluster.NodeID{"n2"}) {
		t.Fatalf("higher epoch: %+v, %v", ch, err)
	}
	if ch, err := tab.AddAnn(n2.announce(t, 2), t0); err != nil || ch.Stored {
		t.Errorf("lower epoch: %+v, %v", ch, err)
	}
	late := n2.ann(4)
	late.Expires = t0.Unix() + 60
	if _, err := tab.AddAnn(signAnn(t, late, n2.key), t0.Add(ExpiredGrace+time.Minute)); !errors.Is(err, ErrExpired) {
		t.Errorf("expired: %v", err)
	}
	early := n2.ann(4)
	early.Issued += 3600
	early.Expires += 3600
	if _, err := tab.AddAnn(signAnn(t, early, n2.key), t0); !errors.Is(err, ErrFuture) {
		t.Errorf("future: %v", err)
	}
	theft := n2.ann(4)
	theft.WGPub = newHost(1).ann(1).WGPub
	if ch, err := tab.AddAnn(signAnn(t, theft, n2.key), t0); err != nil || !slices.Equal(ch.Removed, []cluster.NodeID{"n2"}) || len(ch.Evidence) != 1 {
		t.Errorf("another host's WireGuard key: %+v, %v", ch, err)
	}
	if ch, err := tab.AddAnn(n2.announce(t, 5), t0); err != nil || !slices.Equal(ch.Joined, []cluster.NodeID{"n2"}) {
		t.Errorf("its own again: %+v, %v", ch, err)
	}
	if m, _ := tab.Member("n2"); m.Epoch != 5 {
		t.Errorf("epoch %d, want 5", m.Epoch)
	}
}

func TestEquivocationIsEvidence(t *testing.T) {
	tab, _, n2 := started(t)
	other := n2.ann(1)
	other.Priority = 1
	fork := signAnn(t, other, n2.key)
	digest := tab.Digest()
	for range 2 {
		if _, err := tab.AddAnn(fork, t0); !errors.Is(err, ErrForked) {
			t.Fatalf("fork: %v", err)
		}
	}
	ev := tab.Evidence()
	if len(ev) != 1 || ev[0].Node != "n2" || !errors.Is(ev[0].Why, ErrForked) || !ev[0].Other.Equal(fork) {
		t.Fatalf("evidence %+v", ev)
	}
	if m, _ := tab.Member("n2"); m.Priority != 10 {
		t.Error("the second announcement of one epoch replaced the first")
	}
	if tab.Digest() != digest {
		t.Error("a fork changed the digest")
	}
	for i := range byte(2 * maxEvidence) {
		a := n2.ann(1)
		a.Priority = 1000 + uint32(i)
		if ch, _ := tab.AddAnn(signAnn(t, a, n2.key), t0); ch.Stored {
			t.Error("one host's forks are written down again and again")
		}
	}
	if n := len(tab.Evidence()); n != 1 {
		t.Errorf("%d pieces of evidence of one host's forks", n)
	}
}

// TestConflictSettlesAlike gives two certificates with one node id, or one
// address, to two tables in either order.
func TestConflictSettlesAlike(t *testing.T) {
	n1, a, b := newHost(1), newHost(3), newHost(4)
	for name, change := range map[string]func(c *Cert){
		"node id": func(c *Cert) { c.Node = a.node },
		"address": func(c *Cert) { c.IP4 = a.cert(0, 3).IP4 },
		"both":    func(c *Cert) { c.Node, c.IP4 = a.node, a.cert(0, 3).IP4 },
	} {
		for _, later := range []int64{0, 10} {
			rival := b.cert(0, 4)
			change(&rival)
			rival.Issued += later
			certs := []Signed{signCert(t, a.cert(0, 3), n1.key), signCert(t, rival, n1.key)}
			anns := []Signed{a.announce(t, 1), b.announce(t, 1)}
			var digests [2][16]byte
			for order := range 2 {
				tab, _, _ := started(t)
				for i := range 2 {
					k := (i + order) % 2
					_, _ = tab.AddCert(certs[k], t0.Add(time.Minute))
					_, _ = tab.AddAnn(anns[k], t0.Add(time.Minute))
				}
				digests[order] = tab.Digest()
				if later > 0 {
					if _, ok := tab.MemberByKey(pub(a.key)); !ok {
						t.Errorf("%s, order %d: the earlier certificate lost", name, order)
					}
				}
				want := 3
				if name == "address" {
					want = 4 // the loser stays, by its IPv6 address
				}
				if tab.Len() != want || len(tab.Evidence()) == 0 {
					t.Errorf("%s, order %d: %d keys, %d pieces of evidence", name, order, tab.Len(), len(tab.Evidence()))
				}
			}
			if digests[0] != digests[1] {
				t.Errorf("%s, %d s later: the order of arrival decided", name, later)
			}
		}
	}
}

func TestRenewalKeepsTheHost(t *testing.T) {
	tab, n1, n2 := started(t)
	c := n2.cert(0, 2)
	c.Issued, c.Serial = c.Issued+1000, 2
	c.Expires += 1000
	renewed := signCert(t, c, n1.key)
	old, _, _ := tab.Proof("n2")
	ch, err := tab.AddCert(renewed, t0.Add(time.Hour))
	if err != nil || !slices.Equal(ch.Updated, []cluster.NodeID{"n2"}) {
		t.Fatalf("%+v, %v", ch, err)
	}
	if ch, err := tab.AddCert(old, t0.Add(time.Hour)); err != nil || ch.Stored {
		t.Errorf("the older certificate again: %+v, %v", ch, err)
	}
	if m, ok := tab.Member("n2"); !ok || m.Epoch != 1 {
		t.Errorf("member %+v, %t", m, ok)
	}
	renamed := n2.cert(0, 2)
	renamed.Node = "other"
	renamed.Issued += 2000
	if _, err := tab.AddCert(signCert(t, renamed, n1.key), t0.Add(time.Hour)); !errors.Is(err, ErrConflict) {
		t.Errorf("a sponsor renamed a host: %v", err)
	}
	if ch, err := tab.AddCert(signCert(t, renamed, rootKey), t0.Add(time.Hour)); err != nil ||
		!slices.Equal(ch.Joined, []cluster.NodeID{"other"}) || !slices.Equal(ch.Removed, []cluster.NodeID{"n2"}) {
		t.Errorf("the root renamed a host: %+v, %v", ch, err)
	}
}

func TestRevoke(t *testing.T) {
	tab, n1, n2 := started(t)
	other := newHost(8)
	if _, err := tab.AddCert(other.sponsorCert(t, 1), t0); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Signed{
		"by a member":               signRevoke(t, pub(n1.key), n2.key),
		"by a stranger":             signRevoke(t, pub(n2.key), testKey(9)),
		"of a sponsor by a sponsor": signRevoke(t, pub(n1.key), other.key),
	} {
		if _, err := tab.AddRevoke(s, t0); !errors.Is(err, ErrNoIssuer) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cert, ann, _ := tab.Proof("n2")
	ch, err := tab.AddRevoke(signRevoke(t, pub(n2.key), n1.key), t0)
	if err != nil || !slices.Equal(ch.Removed, []cluster.NodeID{"n2"}) {
		t.Fatalf("%+v, %v", ch, err)
	}
	if ch, err := tab.AddCert(cert, t0); err != nil || ch.Stored || tab.Len() != 2 {
		t.Errorf("certificate of a revoked key: %+v, %v", ch, err)
	}
	if _, err := tab.AddAnn(ann, t0); !errors.Is(err, ErrRevoked) {
		t.Errorf("announcement of a revoked key: %v", err)
	}
	if !tab.Revoked(pub(n2.key)) || tab.Revoked(pub(n1.key)) {
		t.Error("wrong keys are revoked")
	}
	fresh := NewTable(verifier)
	if _, err := fresh.AddAll(tab.Records(), t0); err != nil {
		t.Fatal(err)
	}
	if fresh.Digest() != tab.Digest() || !fresh.Revoked(pub(n2.key)) {
		t.Error("records do not carry the revocation")
	}
	if ch, err := fresh.AddAll(Records{Certs: []Signed{cert}, Anns: []Signed{ann}, Revokes: []Signed{signRevoke(t, pub(n1.key), rootKey)}}, t0); err == nil ||
		!slices.Equal(ch.Removed, []cluster.NodeID{"n1"}) || len(ch.Joined) != 0 {
		t.Errorf("root revokes a sponsor: %+v, %v", ch, err)
	}
}

func TestRestoreKeepsExpiredPeers(t *testing.T) {
	tab, _, _ := started(t)
	later := t0.Add(2 * DefaultCertLife)
	strict := NewTable(verifier)
	if _, err := strict.AddAll(tab.Records(), later); !errors.Is(err, ErrExpired) {
		t.Errorf("expired records from elsewhere: %v", err)
	}
	own := NewTable(verifier)
	if _, err := own.Restore(tab.Records(), later); err != nil || len(own.Members()) != 2 {
		t.Errorf("own expired records: %d members, %v", len(own.Members()), err)
	}
	forged := tab.Records()
	forged.Certs[0].Sig = make([]byte, 64)
	if _, err := NewTable(verifier).Restore(forged, later); !errors.Is(err, ErrSignature) {
		t.Errorf("forged record in the own file: %v", err)
	}
}

// TestExchangeConverges lets two tables with random halves of the records
// exchange what the other lacks, once each way.
func TestExchangeConverges(t *testing.T) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 7))
		n1 := newHost(1)
		a, b := NewTable(verifier), NewTable(verifier)
		for _, tab := range []*Table{a, b} {
			if _, err := tab.AddCert(n1.sponsorCert(t, 0), t0); err != nil {
				t.Fatal(err)
			}
		}
		for n := byte(2); n < 20; n++ {
			h := newHost(n)
			for _, tab := range []*Table{a, b} {
				if r.IntN(2) == 0 {
					_, _ = tab.AddCert(signCert(t, h.cert(0, n), n1.key), t0)
					_, _ = tab.AddAnn(h.announce(t, 1+r.Uint64N(3)), t0)
				}
				if r.IntN(10) == 0 {
					_, _ = tab.AddAll(Records{
						Certs: []Signed{signCert(t, h.cert(0, n), n1.key)}, Revokes: []Signed{signRevoke(t, pub(h.key), n1.key)},
					}, t0)
				}
			}
		}
		_, _ = a.AddAll(b.Missing(a.Summary()), t0)
		_, _ = b.AddAll(a.Missing(b.Summary()), t0)
		if a.Digest() != b.Digest() || !reflect.DeepEqual(a.Members(), b.Members()) {
			t.Fatalf("seed %d: tables differ after the exchange", seed)
		}
		if rest := a.Missing(b.Summary()); !rest.Empty() {
			t.Fatalf("seed %d: %+v is still missing", seed, rest)
		}
	}
}

func TestRecordsJSON(t *testing.T) {
	tab, _, _ := started(t)
	raw, err := json.Marshal(tab.Records())
	if err != nil {
		t.Fatal(err)
	}
	var rs Records
	if err := json.Unmarshal(raw, &rs); err != nil {
		t.Fatal(err)
	}
	again := NewTable(verifier)
	if _, err := again.AddAll(rs, t0); err != nil || again.Digest() != tab.Digest() {
		t.Errorf("after a round trip: %v", err)
	}
	cert, ann, _ := tab.Proof("n2")
	t.Logf("text forms: cert %d, ann %d bytes", len(cert.String()), len(ann.String()))
}

func TestTableIsBounded(t *testing.T) {
	tab, n1, _ := started(t)
	for i := len(tab.byID); i < MaxMembers; i++ {
		tab.byID[key{0, byte(i), byte(i >> 8)}] = &entry{claim: claim{cert: Cert{Issuer: verifier.RootPub}}}
	}
	if _, err := tab.AddCert(signCert(t, newHost(3).cert(0, 3), n1.key), t0); !errors.Is(err, ErrFull) {
		t.Errorf("%v, want ErrFull", err)
	}
	if _, err := tab.AddAll(Records{Anns: make([]Signed, MaxMembers+1)}, t0); !errors.Is(err, ErrFull) {
		t.Errorf("too many records at once: %v", err)
	}
}

// TestRecordTextFits holds that the largest records fit a peer_announce.
func TestRecordTextFits(t *testing.T) {
	const limit = 600 // wire.MaxRecordText
	h := host{"abcdefghijklmnopqrstuvwxyz012345", testKey(1)}
	cert := h.sponsorCert(t, 0)
	a := h.ann(maxNumber)
	a.Zone = "abcdefghijklmnopqrstuvwxyz012345"
	e := netip.MustParseAddrPort("[2001:db8::1]:51820")
	a.Endpoints, a.Next, a.NextAt = []netip.AddrPort{e, e, e, e}, [32]byte{1}, t0.Unix()
	ann := signAnn(t, a, h.key)
	if n, m := len(cert.String()), len(ann.String()); n > limit || m > limit {
		t.Errorf("cert of %d bytes, ann of %d", n, m)
	} else {
		t.Logf("largest: cert %d, ann %d bytes", n, m)
	}
}
