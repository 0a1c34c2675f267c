package member

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"testing"
	"time"
)

// FuzzRecord reads bytes as each kind of record. What is accepted must encode
// to a prefix of the same bytes: there is one form of every record.
func FuzzRecord(f *testing.F) {
	h := newHost(1)
	a := h.ann(7)
	a.NAT, a.Witness, a.Next, a.NextAt, a.Onion = true, true, [32]byte{1}, 5, Onion{9}
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

// FuzzRecords reads bytes as a file or an answer full of records. What is
// accepted must survive being written again, and leaves a table sound.
func FuzzRecords(f *testing.F) {
	tab, n1, n2 := started(f)
	a := n2.ann(1)
	a.Priority = 3
	_, _ = tab.AddAnn(signAnn(f, a, n2.key), t0)
	_, _ = tab.AddRevoke(revocation(f, n2.cert(0, 2), ReasonLeft, t0, n2), t0)
	for _, rs := range []Records{{}, tab.Records(), {Certs: []Signed{n1.sponsorCert(f, 0)}}} {
		raw, err := json.Marshal(rs)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"certs":[""],"evidence":[{"why":"no"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		rs, err := DecodeRecords(raw)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrFull) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		again, err := json.Marshal(rs)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := DecodeRecords(again); err != nil || len(back.Certs) != len(rs.Certs) || len(back.Evidence) != len(rs.Evidence) {
			t.Fatalf("written again: %v", err)
		}
		fresh := NewTable(verifier)
		_, _ = fresh.Restore(rs, t0)
		_, _ = fresh.AddAll(rs, t0)
		checkTable(t, fresh)
		n := 0
		for _, part := range rs.Batches(3) {
			n += len(part.Certs) + len(part.Revokes) + len(part.Anns)
		}
		if all := len(rs.Certs) + len(rs.Revokes) + len(rs.Anns); n > all {
			t.Fatalf("%d records in batches, %d before", n, all)
		}
	})
}

// FuzzOrder plays records of two sponsors and a few hosts, some of them in
// conflict, in the order that the bytes say, against tables that get them in
// another. Once all have all, they must agree.
func FuzzOrder(f *testing.F) {
	var pools [][]Records
	for seed := range uint64(8) {
		pools = append(pools, world(f, rand.New(rand.NewPCG(seed, 3))))
	}
	f.Add([]byte{0, 1, 2, 3, 200, 7})
	f.Fuzz(func(t *testing.T, order []byte) {
		if len(order) == 0 || len(order) > 300 {
			return
		}
		pool := pools[order[0]%8]
		now := t0.Add(10 * time.Minute)
		a, b := NewTable(verifier), NewTable(verifier)
		for _, i := range order[1:] {
			_, _ = a.AddAll(pool[int(i)%len(pool)], now)
			checkTable(t, a)
		}
		for _, rs := range pool {
			_, _ = b.AddAll(rs, now)
		}
		for range 12 {
			_, _ = a.AddAll(b.Missing(a.Summary()), now)
			_, _ = b.AddAll(a.Missing(b.Summary()), now)
			if a.Digest() == b.Digest() {
				return
			}
		}
		t.Fatal("no agreement")
	})
}
