package member

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestGolden holds that the bytes of records stay what they are: hosts of all
// versions compare and verify them.
func TestGolden(t *testing.T) {
	h, member := newHost(1), newHost(2)
	renewed := member.cert(1, 2)
	renewed.Renewed, renewed.Serial, renewed.Since, renewed.Issued = true, 7, renewed.Issued, renewed.Issued+9
	full := h.ann(9)
	full.NAT, full.Witness, full.Next, full.NextAt = true, true, [32]byte{1, 2}, t0.Unix()+60
	full.Endpoints = append(full.Endpoints, netip.MustParseAddrPort("[2001:db8::1]:51820"))
	withOnion := full
	withOnion.Epoch, withOnion.Onion = 10, Onion{3, 4}
	withClient := withOnion
	withClient.Epoch, withClient.OnionClient = 11, [32]byte{5, 6}
	var b strings.Builder
	for _, r := range []struct {
		name string
		rec  Signed
	}{
		{"cert-sponsor", h.sponsorCert(t, 0)},
		{"cert-member", signCert(t, member.cert(0, 2), h.key)},
		{"cert-renewed", signCert(t, renewed, h.key)},
		{"ann", h.announce(t, 1)},
		{"ann-full", signAnn(t, full, h.key)},
		{"ann-onion", signAnn(t, withOnion, h.key)},
		{"ann-onion-client", signAnn(t, withClient, h.key)},
		{"revoke", revocation(t, member.cert(0, 2), "lost", t0, h)},
		{"leave", revocation(t, member.cert(0, 2), ReasonLeft, t0, member)},
	} {
		fmt.Fprintf(&b, "%s %s\n", r.name, r.rec)
	}
	name := filepath.Join("testdata", "records.txt")
	if os.Getenv("SKEIN_UPDATE") == "1" {
		if err := os.WriteFile(name, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("records are\n%swant\n%s"+
			"if that is meant: SKEIN_UPDATE=1 go test ./coord/member -run Golden; hosts of earlier versions must read them", b.String(), want)
	}
	// And the old bytes read as they did.
	tab := NewTable(verifier)
	for line := range strings.Lines(string(want)) {
		kind, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		s, err := ParseSigned(text)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		switch kind {
		case "cert-sponsor", "cert-member", "cert-renewed":
			_, err = tab.AddCert(s, t0)
		case "ann", "ann-full", "ann-onion", "ann-onion-client":
			_, err = tab.AddAnn(s, t0)
		default:
			_, err = tab.AddRevoke(s, t0)
		}
		if err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if m, ok := tab.Member("n1"); !ok || m.Epoch != 11 || m.Onion != withOnion.Onion.String() || !bytes.Equal(m.OnionClient, withClient.OnionClient[:]) || !m.NAT || len(m.Endpoints) != 2 || m.NextAt != full.NextAt {
		t.Errorf("%+v, %t", m, ok)
	}
	if rs := tab.Retired(); len(rs) != 1 || rs[0].Cert.IP4 != renewed.IP4 || rs[0].Left {
		t.Errorf("%+v", rs)
	}
}
