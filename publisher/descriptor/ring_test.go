package descriptor

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"
)

var srvPrevious, srvCurrent = sum3([]byte("previous")), sum3([]byte("current"))

func testConsensus(validAfter time.Time, interval time.Duration) *Consensus {
	return &Consensus{
		ValidAfter: validAfter, FreshUntil: validAfter.Add(interval), ValidUntil: validAfter.Add(3 * interval),
		CurrentSRV: &srvCurrent, PreviousSRV: &srvPrevious,
		Replicas: 2, SpreadStore: 4, SpreadFetch: 3, Interval: 24 * time.Hour,
	}
}

// TestSegments is the whole table: each hour of two public days, and each
// consensus of two runs in testing networks with long and short votes.
func TestSegments(t *testing.T) {
	for _, c := range []struct {
		name     string
		testing  bool
		interval time.Duration
		length   int64 // minutes
		start    time.Time
	}{
		{"public", false, time.Hour, 1440, time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)},
		{"testing 10 s", true, 10 * time.Second, 4, time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)},
		{"testing 20 s", true, 20 * time.Second, 8, time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)},
		{"testing 5 min", true, 5 * time.Minute, 120, time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)},
	} {
		for n := range 48 {
			va := c.start.Add(time.Duration(n) * c.interval)
			s, err := testConsensus(va, c.interval).Schedule(c.testing)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			// A run of the shared random value begins with n = 0 and 24; the
			// next period with 12 and 36.
			after := n%24 < 12
			current := (va.Unix()/60 - int64(12*c.interval/time.Minute)) / c.length
			first, second := current, current+1
			if !after {
				first, second = current-1, current
			}
			want := Schedule{
				First:    Slot{Period{uint64(first), uint64(c.length)}, srvPrevious},
				Second:   Slot{Period{uint64(second), uint64(c.length)}, srvCurrent},
				AfterSRV: after,
			}
			if s != want {
				t.Errorf("%s: consensus %d: %+v, want %+v", c.name, n, s, want)
			}
			fetched := s.Fetched()
			if fetched.Period.Number != uint64(current) {
				t.Errorf("%s: consensus %d: clients fetch %s, current is %d", c.name, n, fetched.Period, current)
			}
			if p := s.Periods(); p[0] != fetched.Period || !slices.Contains(p, s.First.Period) || !slices.Contains(p, s.Second.Period) {
				t.Errorf("%s: consensus %d: periods %v", c.name, n, p)
			}
		}
	}
}

// TestSlotsHandOver: what was the second descriptor is the first one after the
// next shared random value, at the same directories.
func TestSlotsHandOver(t *testing.T) {
	day := time.Date(2026, 3, 4, 23, 0, 0, 0, time.UTC)
	before, err1 := testConsensus(day, time.Hour).Schedule(false)
	next := testConsensus(day.Add(time.Hour), time.Hour)
	next.PreviousSRV = &srvCurrent
	after, err2 := next.Schedule(false)
	if err1 != nil || err2 != nil || before.Second != after.First || before.Fetched() != after.Fetched() {
		t.Errorf("before %+v, after %+v (%v, %v)", before, after, err1, err2)
	}
}

func TestDisasterSRV(t *testing.T) {
	c := testConsensus(testNow.Truncate(time.Hour), time.Hour)
	c.PreviousSRV = nil
	s, err := c.Schedule(false)
	if err != nil {
		t.Fatal(err)
	}
	want := sum3([]byte("shared-random-disaster"), int8s(s.First.Period.Length, s.First.Period.Number))
	if s.First.SRV != want || s.Second.SRV != srvCurrent {
		t.Errorf("slots %+v", s)
	}
}

func TestScheduleRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		consensus *Consensus
		testing   bool
	}{
		"empty":             {&Consensus{}, false},
		"no time":           {testConsensus(testNow, 0), false},
		"before 1970":       {testConsensus(time.Unix(-9999, 0), time.Hour), false},
		"in the first days": {testConsensus(time.Unix(86400, 0), time.Hour), false},
		"votes too fast":    {testConsensus(testNow, 2*time.Second), true},
	} {
		if s, err := c.consensus.Schedule(c.testing); !errors.Is(err, ErrConsensus) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// ringOf makes a ring of n relays with their texts.
func ringOf(t testing.TB, n int, s Slot) (*Ring, map[Fingerprint][32]byte) {
	t.Helper()
	c := testConsensus(testNow, time.Hour)
	mds, ids := Microdescs{}, map[Fingerprint][32]byte{}
	for i := range n {
		var d Dir
		binary.BigEndian.PutUint32(d.Fingerprint[:], uint32(i))
		d.Microdesc = sum3([]byte("md"), d.Fingerprint[:])
		ids[d.Fingerprint] = sum3([]byte("id"), d.Fingerprint[:])
		mds[d.Microdesc] = ids[d.Fingerprint]
		c.Dirs = append(c.Dirs, d)
	}
	r, err := c.Ring(mds, s)
	if err != nil {
		t.Fatal(err)
	}
	return r, ids
}

// TestRingAgainstTwin compares with the definition: the nodes whose way round
// the circle from the service index is the shortest.
func TestRingAgainstTwin(t *testing.T) {
	s := Slot{testPeriod, srvCurrent}
	circle := new(big.Int).Lsh(big.NewInt(1), 256)
	for _, n := range []int{1, 3, 7, 9, 20, 200} {
		r, ids := ringOf(t, n, s)
		for k := range 20 {
			b := NewSecretKey([32]byte{byte(k)}).Address().Blind(testPeriod)
			for _, spread := range []int{r.spread, r.spreadStore} {
				var want []Fingerprint
				for replica := uint64(1); replica <= 2; replica++ {
					at := serviceIndex(b, replica, testPeriod)
					var left []Fingerprint
					for f := range ids {
						if !slices.Contains(want, f) {
							left = append(left, f)
						}
					}
					way := func(f Fingerprint) *big.Int {
						i := nodeIndex(ids[f], s)
						d := new(big.Int).Sub(new(big.Int).SetBytes(i[:]), new(big.Int).SetBytes(at[:]))
						return d.Mod(d, circle)
					}
					slices.SortFunc(left, func(a, b Fingerprint) int { return way(a).Cmp(way(b)) })
					want = append(want, left[:min(spread, len(left))]...)
				}
				if got := r.responsible(b, spread); !slices.Equal(got, want) {
					t.Fatalf("%d relays, spread %d: %v, want %v", n, spread, got, want)
				}
			}
			store := r.Store(b)
			for _, f := range r.Fetch(b) {
				if !slices.Contains(store, f) {
					t.Errorf("clients ask %s, which gets no descriptor", f)
				}
			}
		}
	}
}

// network writes the texts of a network as tor does.
func network(relays int) (consensus, mds string) {
	var c, m strings.Builder
	c.WriteString("network-status-version 3 microdesc\nvote-status consensus\nconsensus-method 33\n" +
		"valid-after 2026-03-04 05:00:00\nfresh-until 2026-03-04 06:00:00\nvalid-until 2026-03-04 08:00:00\n" +
		"voting-delay 300 300\nknown-flags Fast HSDir Running V2Dir Valid\n" +
		"params CircuitPriorityHalflifeMsec=30000 hsdir_spread_store=2 hsdir_spread_fetch=1\n" +
		"shared-rand-previous-value 9 " + base64.StdEncoding.EncodeToString(srvPrevious[:]) + "\n" +
		"shared-rand-current-value 9 " + base64.StdEncoding.EncodeToString(srvCurrent[:]) + "\n" +
		"dir-source authority ABC 127.0.0.1 127.0.0.1 7000 7001\ncontact x\nvote-digest ABC\n")
	for i := range relays {
		id := sum3([]byte("ed"), int8s(uint64(i)))
		md := "onion-key\n-----BEGIN RSA PUBLIC KEY-----\nMIGJ\n-----END RSA PUBLIC KEY-----\nntor-onion-key AAAA\n" +
			"id ed25519 " + base64.RawStdEncoding.EncodeToString(id[:]) + "\n"
		m.WriteString(md)
		fp := make([]byte, 20)
		binary.BigEndian.PutUint32(fp, uint32(i))
		digest := sha256.Sum256([]byte(md))
		fmt.Fprintf(&c, "r relay%d %s 2026-03-04 04:00:00 127.0.0.1 %d 0\nm %s\ns Fast HSDir Running V2Dir Valid\nv Tor 0.4.9.11\n"+
			"pr Cons=1-2 Desc=1-2 HSDir=2 HSIntro=4-5\nw Bandwidth=1\n",
			i, base64.RawStdEncoding.EncodeToString(fp), 9000+i, base64.RawStdEncoding.EncodeToString(digest[:]))
	}
	c.WriteString("directory-footer\nbandwidth-weights Wbd=0\ndirectory-signature sha256 A B\n-----BEGIN SIGNATURE-----\nAAAA\n-----END SIGNATURE-----\n")
	return c.String(), m.String()
}

func TestParseNetwork(t *testing.T) {
	text, mdText := network(12)
	for _, form := range []func(string) string{
		func(s string) string { return s },
		func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
	} {
		c, err := ParseConsensus([]byte(form(text)))
		if err != nil {
			t.Fatal(err)
		}
		mds, err := ParseMicrodescs([]byte(form("\n" + mdText)))
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Dirs) != 12 || c.Relays != 12 || len(mds) != 12 || c.SpreadStore != 2 || c.SpreadFetch != 1 || c.Replicas != 2 ||
			*c.CurrentSRV != srvCurrent || *c.PreviousSRV != srvPrevious || c.Interval != 24*time.Hour ||
			!c.ValidAfter.Equal(time.Date(2026, 3, 4, 5, 0, 0, 0, time.UTC)) {
			t.Fatalf("%+v, %d microdescriptors", c, len(mds))
		}
		sched, err := c.Schedule(false)
		if err != nil || !sched.AfterSRV {
			t.Fatalf("%+v, %v", sched, err)
		}
		r, err := c.Ring(mds, sched.First)
		if err != nil || r.Len() != 12 {
			t.Fatal(err)
		}
		b := seedKey().Address().Blind(sched.First.Period)
		if len(r.Store(b)) != 4 || len(r.Fetch(b)) != 2 {
			t.Errorf("store at %v, fetch from %v", r.Store(b), r.Fetch(b))
		}
	}
}

func TestWhoIsADirectory(t *testing.T) {
	text, mdText := network(3)
	mds, err := ParseMicrodescs([]byte(mdText))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		old, with string
		want      int
	}{
		"all":         {"", "", 3},
		"no flag":     {"\ns Fast HSDir", "\ns Fast", 2},
		"version 1":   {"HSDir=2", "HSDir=1", 2},
		"a span":      {"HSDir=2", "HSDir=1-2", 3},
		"a list":      {"HSDir=2", "HSDir=1,2-3", 3},
		"later":       {"HSDir=2", "HSDir=3", 2},
		"nonsense":    {"HSDir=2", "HSDir=2-x", 2},
		"none at all": {"HSDir=2 ", "", 2},
	} {
		got, err := ParseConsensus([]byte(strings.Replace(text, c.old, c.with, 1)))
		if err != nil || len(got.Dirs) != c.want {
			t.Errorf("%s: %d directories, want %d (%v)", name, len(got.Dirs), c.want, err)
		}
	}
	c, err := ParseConsensus([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	delete(mds, c.Dirs[0].Microdesc)
	if r, err := c.Ring(mds, Slot{}); err != nil || r.Len() != 2 {
		t.Errorf("one microdescriptor unknown: %v", err)
	}
	if _, err := c.Ring(nil, Slot{}); !errors.Is(err, ErrNoDirs) {
		t.Errorf("no microdescriptors: %v", err)
	}
}

func TestConsensusRefuses(t *testing.T) {
	text, mdText := network(3)
	swap := func(old, with string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(text, old, with, 1)
	}
	for name, bad := range map[string]string{
		"empty":           "",
		"other flavour":   swap("3 microdesc", "3"),
		"no valid-after":  swap("valid-after 2026-03-04 05:00:00\n", ""),
		"no time":         swap("valid-after 2026-03-04 05:00:00", "valid-after 2026-13-04 05:00:00"),
		"order":           swap("fresh-until 2026-03-04 06", "fresh-until 2026-03-04 05"),
		"twice":           swap("valid-until", "valid-after 2026-03-04 05:00:00\nvalid-until"),
		"param":           swap("hsdir_spread_store=2", "hsdir_spread_store=two"),
		"short SRV":       swap("shared-rand-current-value 9 ", "shared-rand-current-value 9 AAAA "),
		"short identity":  swap("r relay1 ", "r relay1 AAAA "),
		"relay twice":     swap("r relay2 AAAAAg", "r relay2 AAAAAQ"),
		"long digest":     swap("\nm ", "\nm "+strings.Repeat("A", 43)),
		"two digests":     swap("\nm ", "\nm "+strings.Repeat("A", 43)+"\nm "),
		"relay line lost": swap("r relay0", "x relay0"),
		"params late":     swap("r relay2", "params a=1\nr relay2"),
		"no footer":       strings.Replace(text, "directory-footer", "footer", 1),
		"cut":             text[:len(text)/2],
		"NUL":             swap("vote-status", "vote\x00status"),
		"long line":       swap("vote-status", "vote-status "+strings.Repeat("x", maxLine)),
	} {
		if c, err := ParseConsensus([]byte(bad)); !errors.Is(err, ErrConsensus) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	for name, bad := range map[string]string{
		"other text":  "hello\n",
		"bad id":      strings.Replace(mdText, "id ed25519 ", "id ed25519 AA", 1),
		"id twice":    mdText + "id ed25519 " + strings.Repeat("A", 43) + "\n",
		"cut":         mdText[:len(mdText)-1],
		"NUL":         strings.Replace(mdText, "ntor", "nt\x00r", 1),
		"a long line": strings.Replace(mdText, "ntor", strings.Repeat("x", maxLine+1), 1),
	} {
		if _, err := ParseMicrodescs([]byte(bad)); !errors.Is(err, ErrSyntax) {
			t.Errorf("microdescriptors: %s: %v", name, err)
		}
	}
	if c, err := ParseConsensus([]byte(swap("hsdir_spread_store=2", "hsdir_spread_store=99999 hsdir_n_replicas=-3"))); err != nil || c.SpreadStore != 128 || c.Replicas != 1 {
		t.Errorf("parameters out of range: %+v, %v", c, err)
	}
	if mds, err := ParseMicrodescs(bytes.ReplaceAll([]byte(mdText), []byte("id ed25519"), []byte("id rsa1024"))); err != nil || len(mds) != 0 {
		t.Errorf("relays without Ed25519 identity: %v, %v", mds, err)
	}
}

func BenchmarkRing(b *testing.B) {
	s := Slot{testPeriod, srvCurrent}
	for b.Loop() {
		ringOf(b, 8000, s)
	}
}
