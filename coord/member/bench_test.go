package member

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"os"
	"testing"

	"github.com/skein-project/skein/cluster"
)

// crowd returns the records of n hosts under one sponsor.
func crowd(t testing.TB, n int) Records {
	t.Helper()
	n1 := newHost(1)
	rs := Records{Certs: []Signed{n1.sponsorCert(t, 0)}, Anns: []Signed{n1.announce(t, 1)}}
	for i := 2; i <= n; i++ {
		seed := make([]byte, ed25519.SeedSize)
		binary.BigEndian.PutUint32(seed, uint32(i))
		h := host{cluster.NodeID(fmt.Sprintf("host%d", i)), ed25519.NewKeyFromSeed(seed)}
		c := h.cert(0, 0)
		c.IP4 = addr4(v4(Slices(network)[0].Addr()) + uint32(i))
		rs.Certs = append(rs.Certs, signCert(t, c, n1.key))
		rs.Anns = append(rs.Anns, h.announce(t, 1))
	}
	return rs
}

func crowded(t testing.TB, rs Records) *Table {
	t.Helper()
	tab := NewTable(verifier)
	if _, err := tab.AddAll(rs, t0); err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestFullTable(t *testing.T) {
	n := 200
	if os.Getenv("SKEIN_PROVE") != "" {
		n = MaxMembers
	}
	tab := crowded(t, crowd(t, n))
	if len(tab.Members()) != n {
		t.Errorf("%d members", len(tab.Members()))
	}
	checkTable(t, tab)
	if back := reread(t, tab, t0); back.Digest() != tab.Digest() {
		t.Error("a full table does not survive its file")
	}
}

func BenchmarkAddAll(b *testing.B) {
	for _, n := range []int{64, 512, MaxMembers} {
		rs := crowd(b, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				crowded(b, rs)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "us/member")
		})
	}
}

func BenchmarkKnown(b *testing.B) { // what is pulled or pushed twice
	rs := crowd(b, MaxMembers)
	tab := crowded(b, rs)
	for b.Loop() {
		if ch, err := tab.AddAll(rs, t0); err != nil || ch.Stored {
			b.Fatal(ch, err)
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	tab := crowded(b, crowd(b, MaxMembers))
	for b.Loop() {
		tab.Digest()
	}
}

func BenchmarkSummary(b *testing.B) {
	tab := crowded(b, crowd(b, MaxMembers))
	for b.Loop() {
		tab.Summary()
	}
}

func BenchmarkMissing(b *testing.B) {
	tab := crowded(b, crowd(b, MaxMembers))
	have := tab.Summary()
	for b.Loop() {
		if !tab.Missing(have).Empty() {
			b.Fatal("something is missing")
		}
	}
}

func BenchmarkMembers(b *testing.B) {
	tab := crowded(b, crowd(b, MaxMembers))
	for b.Loop() {
		tab.Members()
	}
}
