package descriptor

import (
	"bytes"
	"crypto/ecdh"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	testNow    = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	testPeriod = Period{20516, 1440}
)

// testPoint makes a point of the host at a relay; both are small numbers.
func testPoint(host, relay int) Point {
	p := Point{AuthKeyType: 1, EncKeyType: 1}
	binary.BigEndian.PutUint32(p.Relay[:], uint32(relay))
	links := []byte{4, linkIPv4, 6, 10, 0, 0, byte(relay), 0x23, 0x29}
	links = append(append(links, linkIPv6, 18), make([]byte, 18)...)
	links = append(append(links, linkRSA, 20), p.Relay[:]...)
	ed := sum3(p.Relay[:])
	links = append(append(links, linkEd25519, 32), ed[:]...)
	p.Links = string(links)
	p.OnionKey = sum3([]byte("onion"), p.Relay[:])
	own := int8s(uint64(host), uint64(relay))
	p.AuthKey = sum3([]byte("auth"), own)
	p.EncKey = sum3([]byte("enc"), own)
	p.EncCert = sum3([]byte("enc-cert"), own)
	return p
}

func testPoints(n int) (out []Point) {
	for i := range n {
		out = append(out, testPoint(0, i+1))
	}
	return out
}

func testParams(points int) Params {
	return Params{
		Key: seedKey(), Period: testPeriod, Revision: 1 << 62, Points: testPoints(points),
		Header: []string{"flow-control 1-2 31\n"}, Now: testNow, Entropy: sum3([]byte("entropy")),
	}
}

func mustBuild(t testing.TB, p Params) Built {
	t.Helper()
	b, err := Build(p)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func expect(p Params, b Built) Expected {
	return Expected{
		Address: p.Key.Address(), Period: p.Period, Revision: p.Revision, Points: p.Points,
		Client: b.Probe, Margin: 50 * time.Hour, Now: p.Now,
	}
}

func clientKey(t testing.TB, n byte) *ecdh.PrivateKey {
	t.Helper()
	k, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{n}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{1, 3, 6, 9, MaxPoints} {
		p := testParams(n)
		b := mustBuild(t, p)
		if b.Probe != nil {
			t.Error("a probe without restriction")
		}
		if err := Check(b.Text, expect(p, b)); err != nil {
			t.Errorf("%d points: %v", n, err)
		}
		s, err := Parse(b.Text, testNow)
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.Open(p.Key.Address(), p.Period, nil, testNow)
		if err != nil {
			t.Fatal(err)
		}
		if d.Revision != p.Revision || strings.Join(d.Header, "") != "flow-control 1-2 31\n" || !SamePoints(d.Points, p.Points) {
			t.Errorf("%d points came back as %+v", n, d)
		}
		text, err := s.layer(layerMiddle, p.Key.Address().Subcredential(p.Period), nil).open(s.body)
		if err != nil || len(text)%padTo != 0 {
			t.Errorf("%d points: the middle layer has %d bytes (%v)", n, len(text), err)
		}
		if m, err := parseMiddle(unpad(text)); err != nil || len(m.clients) != authMultiple {
			t.Errorf("%d points: %d entries of clients (%v)", n, len(m.clients), err)
		}
		for line := range strings.SplitSeq(string(b.Text), "\n") {
			if len(line) > 64 && !strings.HasPrefix(line, "signature ") {
				t.Errorf("line of %d characters", len(line))
			}
		}
		again, err := Parse(bytes.ReplaceAll(b.Text, []byte("\n"), []byte("\r\n")), testNow)
		if err != nil || again.Revision != s.Revision {
			t.Errorf("with the line ends of the control port: %v", err)
		}
		t.Logf("%d points: %d bytes", n, len(b.Text))
	}
}

func TestBuildIsDeterministic(t *testing.T) {
	p := testParams(5)
	a, b := mustBuild(t, p), mustBuild(t, p)
	if !bytes.Equal(a.Text, b.Text) {
		t.Error("same input, different descriptors")
	}
	p.Entropy[0]++
	c := mustBuild(t, p)
	if bytes.Equal(a.Text, c.Text) {
		t.Error("other entropy, same descriptor")
	}
	p = testParams(5)
	p.Points[0].AuthKey[0]++
	d := mustBuild(t, p)
	sa, _ := Parse(a.Text, testNow)
	sd, _ := Parse(d.Text, testNow)
	if bytes.Equal(sa.body[:saltLen], sd.body[:saltLen]) || sa.Key == sd.Key {
		t.Error("other points, same key or salt")
	}
}

func TestBuildRefuses(t *testing.T) {
	dup := testPoints(3)
	dup[2] = testPoint(7, 1)
	lied := testPoints(1)
	lied[0].Relay[0]++
	many := make([]*ecdh.PublicKey, MaxClients+1)
	for i := range many {
		many[i] = clientKey(t, byte(i+1)).PublicKey()
	}
	for name, c := range map[string]struct {
		change func(*Params)
		want   error
	}{
		"no points":    {func(p *Params) { p.Points = nil }, ErrNoPoints},
		"21 points":    {func(p *Params) { p.Points = testPoints(21) }, ErrTooMany},
		"duplicate":    {func(p *Params) { p.Points = dup }, ErrDuplicate},
		"other relay":  {func(p *Params) { p.Points = lied }, ErrPoint},
		"clients":      {func(p *Params) { p.Clients = many }, ErrTooLarge},
		"pow":          {func(p *Params) { p.Header = []string{"pow-params v1 abc 1 2\n"} }, ErrSyntax},
		"header point": {func(p *Params) { p.Header = []string{"introduction-point AA==\n"} }, ErrSyntax},
		"two lines":    {func(p *Params) { p.Header = []string{"a b\nc d\n"} }, ErrSyntax},
		"no line end":  {func(p *Params) { p.Header = []string{"a b"} }, ErrSyntax},
		"long header": {func(p *Params) {
			p.Points = testPoints(20)
			p.Header = []string{"x " + strings.Repeat("y", 20000) + "\n"}
		}, ErrTooLarge},
	} {
		p := testParams(3)
		c.change(&p)
		if _, err := Build(p); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestRestrictedDiscovery(t *testing.T) {
	p := testParams(MaxPoints)
	for i := range MaxClients {
		p.Clients = append(p.Clients, clientKey(t, byte(i+1)).PublicKey())
	}
	full := mustBuild(t, p)
	t.Logf("%d points, %d clients: %d bytes", MaxPoints, MaxClients, len(full.Text))
	p.Clients = p.Clients[:2]
	b := mustBuild(t, p)
	if len(b.Text) > len(full.Text) || b.Probe == nil {
		t.Errorf("%d bytes, probe %v", len(b.Text), b.Probe != nil)
	}
	s, err := Parse(b.Text, testNow)
	if err != nil {
		t.Fatal(err)
	}
	a := p.Key.Address()
	for i := range 2 {
		d, err := s.Open(a, p.Period, clientKey(t, byte(i+1)), testNow)
		if err != nil || !SamePoints(d.Points, p.Points) {
			t.Errorf("client %d: %v", i, err)
		}
	}
	if _, err := s.Open(a, p.Period, clientKey(t, 99), testNow); !errors.Is(err, ErrClientAuth) {
		t.Errorf("a stranger: %v", err)
	}
	if _, err := s.Open(a, p.Period, nil, testNow); !errors.Is(err, ErrClientAuth) || !errors.Is(err, ErrDecrypt) {
		t.Errorf("without a key: %v", err)
	}
	for _, built := range []Built{b, full} {
		want := expect(p, built)
		if err := Check(built.Text, want); err != nil {
			t.Error(err)
		}
	}
}

func TestClientKeyForms(t *testing.T) {
	k := clientKey(t, 7)
	line := FormatClientKey(k.PublicKey())
	got, err := ParseClientKey(" " + line + "\n")
	if err != nil || !got.Equal(k.PublicKey()) {
		t.Errorf("%q: %v", line, err)
	}
	a := seedKey().Address()
	if id, key, ok := strings.Cut(FormatClientSecret(a, k), ":"+clientKeyHead); !ok || id != a.ID() || key != keyBase32.EncodeToString(k.Bytes()) {
		t.Errorf("client secret of %s: %s", id, key)
	}
	for _, bad := range []string{"", "descriptor:x25519:", "descriptor:x25519:AAAA", "descriptor:ed25519:" + line[18:], line + "A", clientKeyHead + strings.Repeat("A", 52)} {
		if _, err := ParseClientKey(bad); !errors.Is(err, ErrClientKey) {
			t.Errorf("ParseClientKey(%q): %v", bad, err)
		}
	}
}

// TestCheck injects what must never be posted.
func TestCheck(t *testing.T) {
	p := testParams(4)
	b := mustBuild(t, p)
	raw := func(points []Point) []byte { return forceBuild(p, points, nil) }
	dup := append(testPoints(3), testPoint(9, 2))
	for name, c := range map[string]struct {
		text   []byte
		change func(*Expected)
		want   error
	}{
		"21 points":       {raw(testPoints(21)), func(e *Expected) { e.Points = testPoints(21) }, ErrTooMany},
		"22 points":       {raw(testPoints(22)), func(e *Expected) { e.Points = testPoints(22) }, ErrTooMany},
		"duplicate relay": {raw(dup), func(e *Expected) { e.Points = dup }, ErrDuplicate},
		"no points":       {raw(nil), func(e *Expected) { e.Points = nil }, ErrNoPoints},
		"other points":    {b.Text, func(e *Expected) { e.Points = testPoints(5) }, ErrMismatch},
		"other point":     {b.Text, func(e *Expected) { e.Points = append(testPoints(3), testPoint(5, 4)) }, ErrMismatch},
		"revision":        {b.Text, func(e *Expected) { e.Revision++ }, ErrMismatch},
		"period":          {b.Text, func(e *Expected) { e.Period.Number++ }, ErrForeign},
		"address":         {b.Text, func(e *Expected) { e.Address = NewSecretKey([32]byte{9}).Address() }, ErrForeign},
		"expires":         {b.Text, func(e *Expected) { e.Margin = 56 * time.Hour }, ErrExpired},
		"large":           {append(bytes.Clone(b.Text), bytes.Repeat([]byte("x"), MaxSize)...), func(*Expected) {}, ErrTooLarge},
	} {
		want := expect(p, b)
		c.change(&want)
		if err := Check(c.text, want); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// forceBuild is Build without its checks, with another text of the inner layer
// if it is not nil.
func forceBuild(p Params, points []Point, inner func([]byte) []byte) []byte {
	p.Points = points
	return forceLayers(p, inner, nil, nil)
}

func TestTamperedText(t *testing.T) {
	p := testParams(3)
	b := mustBuild(t, p)
	a := p.Key.Address()
	open := func(text []byte) error {
		s, err := Parse(text, testNow)
		if err == nil {
			_, err = s.Open(a, p.Period, nil, testNow)
		}
		return err
	}
	if err := open(b.Text); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(b.Text); i += 7 {
		bad := bytes.Clone(b.Text)
		bad[i] ^= 1
		if open(bad) == nil && !harmless(b.Text, bad) {
			t.Errorf("byte %d can be changed", i)
		}
		if i%21 == 0 && open(b.Text[:i]) == nil {
			t.Errorf("cut at %d is not noticed", i)
		}
	}
	if err := open(append(bytes.Clone(b.Text), "x y\n"...)); !errors.Is(err, ErrSyntax) {
		t.Errorf("line after the signature: %v", err)
	}
}

// harmless reports whether only the unused bits at the end of the signature's
// base64 differ.
func harmless(a, b []byte) bool {
	sig := func(text []byte) string {
		_, s, _ := bytes.Cut(text, []byte("\nsignature "))
		raw, _ := base64.RawStdEncoding.DecodeString(string(bytes.TrimSpace(s)))
		return string(raw)
	}
	head := bytes.Index(a, []byte("\nsignature "))
	return bytes.Equal(a[:head], b[:head]) && sig(a) == sig(b)
}

func TestPeriodOf(t *testing.T) {
	p := testParams(3)
	s, err := Parse(mustBuild(t, p).Text, testNow)
	if err != nil {
		t.Fatal(err)
	}
	among := []Period{{20515, 1440}, testPeriod, {20517, 1440}}
	if got, err := s.Period(p.Key.Address(), among); err != nil || got != testPeriod {
		t.Errorf("period %v, %v", got, err)
	}
	if _, err := s.Period(p.Key.Address(), among[:1]); !errors.Is(err, ErrForeign) {
		t.Errorf("replay of another period: %v", err)
	}
	if _, err := s.Period(NewSecretKey([32]byte{1}).Address(), among); !errors.Is(err, ErrForeign) {
		t.Errorf("foreign descriptor: %v", err)
	}
}

func TestCommonHeader(t *testing.T) {
	d := func(lines ...string) *Descriptor { return &Descriptor{Header: lines} }
	flow, pow := "flow-control 1-2 31\n", "pow-params v1 x 0 2026-01-01T00:00:00\n"
	for _, c := range []struct {
		all  []*Descriptor
		want []string
	}{
		{nil, nil},
		{[]*Descriptor{d(flow, pow)}, []string{flow}},
		{[]*Descriptor{d(flow, pow, "new 1\n"), d("new 1\n", flow)}, []string{flow, "new 1\n"}},
		{[]*Descriptor{d(flow), d("flow-control 1-3 31\n")}, nil},
		{[]*Descriptor{d(flow), d()}, nil},
	} {
		if got := CommonHeader(c.all); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v, want %v", got, c.want)
		}
	}
}

func TestRevision(t *testing.T) {
	k := seedKey()
	next := func(term, unix int64, floor uint64) uint64 {
		t.Helper()
		n, err := k.NextRevision(testPeriod, 0+termOf(term), time.Unix(unix, 0), floor)
		if err != nil {
			t.Fatal(err)
		}
		if n <= floor {
			t.Fatalf("%d is not above %d", n, floor)
		}
		return n
	}
	const day = 86400
	now := testNow.Unix()
	first := next(1, now, 0)
	if tor := uint64(11_000_000_000); first <= tor {
		t.Errorf("%d does not beat a tor that published before", first)
	}
	second := next(1, now, first) // same second
	if second != first+1 {
		t.Errorf("after %d comes %d", first, second)
	}
	if back := next(1, now-day, second); back != second+1 { // clock set back, restarted
		t.Errorf("after %d comes %d", second, back)
	}
	// An old publisher with a clock a day ahead loses to the next term.
	if old, successor := next(1, now+day, second), next(2, now-day, 0); successor <= old {
		t.Errorf("term 2 has %d, not above %d of term 1", successor, old)
	}
	if k.revisionBase(testPeriod) == k.revisionBase(Period{testPeriod.Number + 1, 1440}) {
		t.Error("the base does not depend on the period")
	}
	if k.revisionBase(testPeriod)>>61 != 0 {
		t.Error("the base has more than 61 bits")
	}
	next(int64(MaxRevisionTerm), 1<<32-1, 0)
	for _, c := range []struct {
		term, unix int64
		floor      uint64
	}{{int64(MaxRevisionTerm) + 1, now, 0}, {1, 1 << 32, 0}, {1, -1, 0}, {1, now, 1<<64 - 1}} {
		if n, err := k.NextRevision(testPeriod, termOf(c.term), time.Unix(c.unix, 0), c.floor); !errors.Is(err, ErrRevision) {
			t.Errorf("%+v: %d, %v", c, n, err)
		}
	}
}
