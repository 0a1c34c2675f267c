package member

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzRecord reads bytes as each kind of record. What is accepted must encode
// to a prefix of the same bytes: there is one form of every record.
func FuzzRecord(f *testing.F) {
	h := newHost(1)
	a := h.ann(7)
	a.NAT, a.Witness, a.Next, a.NextAt = true, true, [32]byte{1}, 5
	for _, s := range []Signed{h.sponsorCert(f, 0), signCert(f, h.cert(0, 2), testKey(2)), h.announce(f, 1), signAnn(f, a, h.key), signRevoke(f, pub(h.key), rootKey)} {
		f.Add(s.Bytes)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s := Signed{Bytes: raw, Sig: make([]byte, 64)}
		check := func(b body, err error) {
			if err != nil {
				if !errors.Is(err, ErrFormat) {
					t.Fatalf("refused with %v", err)
				}
				return
			}
			again, err := b.encode()
			if err != nil {
				t.Fatalf("accepted, but does not encode: %v", err)
			}
			if len(again) > len(raw) {
				t.Fatalf("%x encodes to %x", raw, again)
			}
			// Unknown capability and flag bits are ignored; all else is equal.
			diff := 0
			for i := range again {
				if again[i] != raw[i] {
					diff++
				}
			}
			if diff > 1 {
				t.Fatalf("%x encodes to %x", raw, again)
			}
		}
		c, err := ParseCert(s)
		check(c, err)
		an, err := ParseAnn(s)
		check(an, err)
		r, err := ParseRevoke(s)
		check(r, err)
	})
}

// FuzzSigned reads text as a record and offers it to a table, which must stay
// as it is: nobody can sign.
func FuzzSigned(f *testing.F) {
	tab, _, _ := started(f)
	cert, ann, _ := tab.Proof("n2")
	f.Add(cert.String())
	f.Add(ann.String())
	f.Add("AA.AA")
	digest := tab.Digest()
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSigned(text)
		if err != nil {
			return
		}
		if s.String() != text {
			t.Fatalf("%q reads as %q", text, s)
		}
		var again Signed
		if again.UnmarshalText([]byte(text)) != nil || !again.Equal(s) || len(s.Bytes) > maxRecordBytes || bytes.Equal(s.Sig, nil) {
			t.Fatal("text form is not stable")
		}
		_, _ = tab.AddCert(s, t0)
		_, _ = tab.AddAnn(s, t0)
		_, _ = tab.AddRevoke(s, t0)
		if tab.Digest() != digest {
			t.Fatalf("%q changed the table", text)
		}
	})
}
