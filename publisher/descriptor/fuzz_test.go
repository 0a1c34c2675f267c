package descriptor

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// known reports whether an error is one that callers can tell apart.
func known(err error) bool {
	return slices.ContainsFunc([]error{
		ErrAddress, ErrKey, ErrSyntax, ErrTooLarge, ErrCert, ErrExpired, ErrSignature, ErrForeign, ErrDecrypt,
		ErrClientAuth, ErrPoint, ErrNoPoints, ErrTooMany, ErrDuplicate, ErrMismatch, ErrRevision, ErrConsensus, ErrNoDirs, ErrClientKey,
	}, func(e error) bool { return errors.Is(err, e) })
}

func FuzzParse(f *testing.F) {
	p := testParams(3)
	text := mustBuild(f, p).Text
	f.Add(text)
	f.Add(bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n")))
	f.Add(text[:len(text)/2])
	f.Fuzz(func(t *testing.T, text []byte) {
		before := bytes.Clone(text)
		s, err := Parse(text, testNow)
		if !bytes.Equal(text, before) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			if !known(err) {
				t.Fatalf("unknown error %v", err)
			}
			return
		}
		if _, err := s.Open(p.Key.Address(), p.Period, nil, testNow); err != nil && !known(err) {
			t.Fatalf("unknown error %v", err)
		}
	})
}

// FuzzLayers puts any text where only the owner of the key can.
func FuzzLayers(f *testing.F) {
	p := testParams(2)
	var inner, middle []byte
	forceLayers(p, func(b []byte) []byte { inner = bytes.Clone(b); return b }, func(b []byte) []byte { middle = bytes.Clone(b); return b }, nil)
	f.Add(inner, middle)
	f.Add([]byte(strings.Repeat("introduction-point AA==\n", 25)), []byte("encrypted\n"))
	signer := sum3(p.Entropy[:])
	f.Fuzz(func(t *testing.T, inner, middle []byte) {
		d, err := parseInner(inner, signer, testNow)
		if err != nil && !known(err) {
			t.Fatalf("unknown error %v", err)
		}
		if err == nil {
			for _, err := range d.Dropped {
				if !errors.Is(err, ErrPoint) {
					t.Fatalf("unknown error %v", err)
				}
			}
			if len(d.Points)+len(d.Dropped) > MaxPoints {
				t.Fatalf("%d points", len(d.Points)+len(d.Dropped))
			}
			for _, line := range CommonHeader([]*Descriptor{d, d}) {
				if err := headerLine(line); err != nil {
					t.Fatalf("carried line %q: %v", line, err)
				}
			}
		}
		m, err := parseMiddle(middle)
		if err != nil {
			if !known(err) {
				t.Fatalf("unknown error %v", err)
			}
			return
		}
		again, err := parseMiddle(unpad(m.encode()))
		if err != nil || again.ephemeral != m.ephemeral || !slices.Equal(again.clients, m.clients) || !bytes.Equal(again.body, m.body) {
			t.Fatalf("the middle layer does not come back: %v", err)
		}
		if _, err := m.cookie(Subcredential{}, clientKey(t, 1)); err != nil && !known(err) {
			t.Fatalf("unknown error %v", err)
		}
	})
}

func FuzzCert(f *testing.F) {
	by := seedKey().blind(testPeriod)
	f.Add(Cert{Type: CertSigning, KeyType: 1, Signer: by.public, Expires: testNow}.encode(by.sign))
	f.Add([]byte{1, 9, 0, 0, 0, 0, 1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := ParseCert(raw)
		if err != nil {
			if !errors.Is(err, ErrCert) {
				t.Fatalf("unknown error %v", err)
			}
			return
		}
		if err := c.Valid(CertAuth, by.public, testNow); err != nil && !known(err) {
			t.Fatalf("unknown error %v", err)
		}
	})
}

func FuzzConsensus(f *testing.F) {
	text, mds := network(3)
	f.Add([]byte(text), []byte(mds))
	f.Add([]byte("network-status-version 3 microdesc\nr a\n"), []byte("onion-key\n"))
	f.Fuzz(func(t *testing.T, text, mdText []byte) {
		mds, err := ParseMicrodescs(mdText)
		if err != nil && !known(err) {
			t.Fatalf("unknown error %v", err)
		}
		c, err := ParseConsensus(text)
		if err != nil {
			if !errors.Is(err, ErrConsensus) {
				t.Fatalf("unknown error %v", err)
			}
			return
		}
		for _, testing := range []bool{false, true} {
			s, err := c.Schedule(testing)
			if err != nil {
				if !errors.Is(err, ErrConsensus) {
					t.Fatalf("unknown error %v", err)
				}
				continue
			}
			if s.Second.Period.Number != s.First.Period.Number+1 || s.First.Period.Length == 0 {
				t.Fatalf("schedule %+v", s)
			}
			r, err := c.Ring(mds, s.First)
			if err != nil {
				if !errors.Is(err, ErrNoDirs) {
					t.Fatalf("unknown error %v", err)
				}
				continue
			}
			dirs := r.Store(Blinded{1})
			if len(dirs) == 0 || len(dirs) > r.Len() {
				t.Fatalf("%d directories of %d", len(dirs), r.Len())
			}
		}
	})
}

func FuzzTexts(f *testing.F) {
	a := seedKey().Address()
	f.Add(a.String())
	f.Add(string(seedKey().File()))
	f.Add(string(a.PublicFile()))
	f.Add(FormatClientKey(clientKey(f, 3).PublicKey()))
	f.Add(FormatClientSecret(a, clientKey(f, 3)))
	f.Add("$" + Fingerprint{1}.String() + "~nick")
	f.Fuzz(func(t *testing.T, text string) {
		check := func(name string, err error, same bool) {
			if err != nil && !known(err) {
				t.Fatalf("%s: unknown error %v", name, err)
			}
			if err == nil && !same {
				t.Fatalf("%s of %q does not come back", name, text)
			}
		}
		addr, err := ParseAddress(text)
		check("address", err, err != nil || strings.EqualFold(strings.TrimSuffix(strings.ToLower(text), ".onion"), addr.ID()))
		key, err := ParseSecretKey([]byte(text))
		check("secret key", err, string(key.File()) == text)
		pub, err := ParsePublicKey([]byte(text))
		check("public key", err, string(pub.PublicFile()) == text)
		client, err := ParseClientKey(text)
		if err == nil {
			again, err2 := ParseClientKey(FormatClientKey(client))
			check("client key", err, err2 == nil && again.Equal(client))
		} else {
			check("client key", err, true)
		}
		fp, err := ParseFingerprint(text)
		check("fingerprint", err, err != nil || strings.Contains(strings.ToUpper(text), fp.String()))
	})
}

// FuzzBuild: whatever is built passes the check of a client, and whatever
// cannot is refused for a reason.
func FuzzBuild(f *testing.F) {
	f.Add(uint8(3), uint8(0), uint64(1), int64(1_800_000_000), "flow-control 1-2 31\n", []byte{1})
	f.Add(uint8(20), uint8(112), uint64(1)<<63, int64(0), "", []byte{2})
	f.Fuzz(func(t *testing.T, points, clients uint8, revision uint64, unix int64, header string, entropy []byte) {
		p := testParams(int(points % 24))
		p.Revision, p.Entropy, p.Now = revision, sum3(entropy), time.Unix(unix%(1<<31), 0)
		if p.Now.Unix() < 0 {
			return
		}
		p.Header = nil
		if header != "" {
			p.Header = []string{header}
		}
		for i := range int(clients % 128) {
			p.Clients = append(p.Clients, clientKey(t, byte(i)).PublicKey())
		}
		b, err := Build(p)
		if err != nil {
			if !known(err) {
				t.Fatalf("unknown error %v", err)
			}
			return
		}
		if err := Check(b.Text, expect(p, b)); err != nil {
			t.Fatalf("built what fails the check: %v", err)
		}
	})
}
