package join

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/door"
	"github.com/skein-project/skein/coord/join/refusals"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/coord/member"
)

// candidate is a host that asks by hand.
type candidate struct {
	id  *Identity
	ann member.Signed
}

func newCandidate(t *testing.T, node cluster.NodeID) candidate {
	t.Helper()
	f, err := newKeys(node)
	if err != nil {
		t.Fatal(err)
	}
	f.RootPub = make([]byte, ed25519.PublicKeySize)
	id, err := f.identity()
	if err != nil {
		t.Fatal(err)
	}
	ann, err := Announce(t.TempDir(), id, About{Endpoints: endpoint("192.0.2.9:51820")}, wall)
	if err != nil {
		t.Fatal(err)
	}
	return candidate{id, ann}
}

// request builds c's request; shape may change it before the proofs are made.
func (c candidate) request(t *testing.T, tok token.Token, now time.Time, shape func(*request)) *request {
	t.Helper()
	r := &request{
		WGPub: c.id.WGPub, RequestTime: now.Unix(), Node: c.id.Node, IDPub: c.id.IDPub,
		Nonce: bytes.Repeat([]byte{7}, nonceLen), Ann: c.ann, TunnelIP: "10.77.0.1",
	}
	if shape != nil {
		shape(r)
	}
	if err := r.prove(r.transcript(tok.Cluster, tok.IDPub, tok.Invite), tok.Secret, c.id.IDKey(), c.id.WGKey(), tok.WGPub); err != nil {
		t.Fatal(err)
	}
	return r
}

func encode(t *testing.T, r *request) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ask posts body to the sponsor's handler from a source of its own.
func (s *site) ask(source, method, path, body string) *http.Response {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.RemoteAddr = source
	w := httptest.NewRecorder()
	s.sponsor.ServeHTTP(w, r)
	return w.Result()
}

// dump is every byte of an answer but the connection's.
func dump(t *testing.T, r *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintln(&b, r.Status)
	_ = r.Header.Write(&b) // to memory
	b.Write(body)
	return b.String()
}

func TestEveryFailureIsTheSame404(t *testing.T) {
	s := newSite(t)
	tok := s.token(1)
	other := s.token(1)
	revoked := s.token(1)
	if err := s.invites.Revoke(revoked.Invite); err != nil {
		t.Fatal(err)
	}
	used := s.token(1)
	if err := Join(t.Context(), used, t.TempDir(), s.options("n2")); err != nil {
		t.Fatal(err)
	}
	expired, err := s.invites.Create(s.id, []string{s.addr}, time.Second, 1, wall.Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	wrongSecret := tok
	wrongSecret.Secret = token.RandomSecret(token.SecretLen)
	wrongSponsor := tok
	wrongSponsor.IDPub = pubOf(t, 9)
	unknown := tok
	unknown.Invite = strings.Repeat("a", token.IDLen)

	c, thief := newCandidate(t, "n3"), newCandidate(t, "n4")
	good := func(tok token.Token, shape func(*request)) string { return encode(t, c.request(t, tok, wall, shape)) }
	changed := func(f func(*request)) string {
		r := c.request(t, tok, wall, nil)
		f(r)
		return encode(t, r)
	}
	type try struct{ method, path, body, result string }
	path := door.PathPrefix + tok.Invite
	tries := map[string]try{
		"GET":               {"GET", path, good(tok, nil), refusals.Request},
		"another path":      {"POST", "/", good(tok, nil), refusals.Request},
		"query":             {"POST", path + "?x=1", good(tok, nil), refusals.Request},
		"long path":         {"POST", path + "a", good(tok, nil), refusals.Request},
		"empty":             {"POST", path, "", refusals.Request},
		"not JSON":          {"POST", path, "node_id", refusals.Request},
		"above 8 KiB":       {"POST", path, `{"x":"` + strings.Repeat("x", door.MaxRequest) + `"}`, refusals.Request},
		"repeated field":    {"POST", path, strings.Replace(good(tok, nil), `{`, `{"node_id":"n9",`, 1), refusals.Request},
		"bad node id":       {"POST", path, good(tok, func(r *request) { r.Node = "N" }), refusals.Request},
		"unknown invite":    {"POST", door.PathPrefix + unknown.Invite, good(unknown, nil), refusals.Invite},
		"other invite":      {"POST", path, good(other, nil), refusals.Secret},
		"wrong secret":      {"POST", path, good(wrongSecret, nil), refusals.Secret},
		"for other sponsor": {"POST", path, good(wrongSponsor, nil), refusals.Secret},
		"revoked invite":    {"POST", door.PathPrefix + revoked.Invite, good(revoked, nil), refusals.Invite},
		"used invite":       {"POST", door.PathPrefix + used.Invite, good(used, nil), refusals.Invite},
		"expired invite":    {"POST", door.PathPrefix + expired.Invite, good(expired, nil), refusals.Invite},
		"old request":       {"POST", path, encode(t, c.request(t, tok, wall.Add(-301*time.Second), nil)), refusals.Clock},
		"future request":    {"POST", path, encode(t, c.request(t, tok, wall.Add(61*time.Second), nil)), refusals.Clock},
		"other identity":    {"POST", path, good(tok, func(r *request) { r.IDPub = thief.id.IDPub }), refusals.Keys},
		"no identity":       {"POST", path, good(tok, func(r *request) { r.IDPub = nil }), refusals.Keys},
		"short nonce":       {"POST", path, good(tok, func(r *request) { r.Nonce = r.Nonce[1:] }), refusals.Keys},
		"stolen WG key":     {"POST", path, good(tok, func(r *request) { r.WGPub = thief.id.WGPub }), refusals.Keys},
		"zero WG key":       {"POST", path, good(tok, func(r *request) { r.WGPub = [32]byte{} }), refusals.Keys},
		"other's ann":       {"POST", path, good(tok, func(r *request) { r.Ann = thief.ann }), refusals.Keys},
		"changed after all": {"POST", path, changed(func(r *request) { r.Node = "n5" }), refusals.Secret},
		"wrong signature":   {"POST", path, changed(func(r *request) { r.Sig[0] ^= 1 }), refusals.Keys},
		"wrong possession":  {"POST", path, changed(func(r *request) { r.Possession[0] ^= 1 }), refusals.Keys},
		"no possession":     {"POST", path, changed(func(r *request) { r.Possession = nil }), refusals.Keys},
		"node id taken":     {"POST", path, good(tok, func(r *request) { r.Node = "n1" }), refusals.Conflict},
		"node id was given": {"POST", path, good(tok, func(r *request) { r.Node = "n2" }), refusals.Conflict},
	}
	var want string
	i := 0
	for name, c := range tries {
		i++
		source := fmt.Sprintf("192.0.2.%d:1000", i)
		before := s.count(c.result)
		got := dump(t, s.ask(source, c.method, c.path, c.body))
		if want == "" {
			want = got
		}
		if got != want || !strings.HasPrefix(got, "404 ") {
			t.Errorf("%s:\n%s\nothers:\n%s", name, got, want)
		}
		if s.count(c.result) != before+1 {
			t.Errorf("%s: not counted as %s", name, c.result)
		}
	}
	// The log says from where, also of those whose source stands for many.
	for _, from := range []string{"127.0.0.1:999", "[2001:db8::9]:999", "onion"} {
		s.ask(from, "GET", "/", "")
		if !strings.Contains(s.log.String(), `"addr":"`+from+`"`) {
			t.Errorf("the log does not name %s", from)
		}
	}
	for range door.MaxTries {
		s.ask("198.51.100.1:1", "GET", "/", "")
	}
	if got := dump(t, s.ask("198.51.100.1:2", "POST", path, good(tok, nil))); got != want || s.count(refusals.Rate) != 1 {
		t.Errorf("above the rate:\n%s", got)
	}
	s.ask("198.51.100.1:3", "POST", path, good(tok, nil))
	if n := strings.Count(s.log.String(), `"result":"rate"`); n != 1 || s.count(refusals.Rate) != 2 {
		t.Errorf("%d lines of the log tell that a source is not listened to, want one for its two requests", n)
	}
	for _, why := range []string{"invite " + used.Invite + " is used up", "invite " + revoked.Invite + " was revoked", "invite " + expired.Invite + " expired 59s ago"} {
		if !strings.Contains(s.log.String(), why) {
			t.Errorf("the log does not say %q", why)
		}
	}
	if n := len(s.admissions()); n != 1 {
		t.Errorf("%d hosts were admitted, want only the first", n)
	}
	// After all this the invite still works, once.
	if r := s.ask("203.0.113.1:1", "POST", path, good(tok, nil)); r.StatusCode != http.StatusOK {
		t.Errorf("a good request after the bad ones: %s", r.Status)
	}
}

func pubOf(t *testing.T, n byte) ed25519.PublicKey {
	t.Helper()
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, 32)).Public().(ed25519.PublicKey)
}

func (s *site) count(result string) int {
	var m dto.Metric
	if err := s.sponsor.tally.Results().WithLabelValues(result).Write(&m); err != nil {
		s.t.Fatal(err)
	}
	return int(m.GetCounter().GetValue())
}

func TestSameAnswerForTheSameHost(t *testing.T) {
	s := newSite(t)
	tok := s.token(1)
	c := newCandidate(t, "n2")
	var bodies []string
	for i := range 3 {
		r := s.ask("192.0.2.1:1", "POST", door.PathPrefix+tok.Invite, encode(t, c.request(t, tok, wall, func(r *request) { r.Nonce[0] = byte(i) })))
		b, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("try %d: %s, %v", i, r.Status, err)
		}
		bodies = append(bodies, string(b))
	}
	if bodies[0] != bodies[1] || bodies[1] != bodies[2] {
		t.Error("the answers differ")
	}
	if n := len(s.invites.List()[0].Spent); n != 1 {
		t.Errorf("%d uses", n)
	}
}

func TestRateCountsFailuresOnly(t *testing.T) {
	s := newSite(t)
	tok := s.token(1)
	c := newCandidate(t, "n2")
	for range 3 * door.MaxTries {
		if r := s.ask("192.0.2.1:1", "POST", door.PathPrefix+tok.Invite, encode(t, c.request(t, tok, wall, nil))); r.StatusCode != http.StatusOK {
			t.Fatal(r.Status)
		}
	}
}

// TestWrongPin: a server that does not hold the sponsor's key learns nothing.
func TestWrongPin(t *testing.T) {
	real, fake := newSite(t), newSite(t)
	tok := real.token(1)
	tok.Addrs = []string{fake.addr}
	err := Join(t.Context(), tok, t.TempDir(), real.options("n2"))
	if !errors.Is(err, ErrPin) {
		t.Fatalf("%v, want ErrPin", err)
	}
	for _, r := range []string{refusals.Invite, refusals.Secret, refusals.Request} {
		if fake.count(r) != 0 {
			t.Error("a request was sent to the wrong server")
		}
	}
}

// TestForgedAnswers lets a sponsor that holds the right keys lie.
func TestForgedAnswers(t *testing.T) {
	s, foreign := newSite(t), newSite(t)
	for name, forge := range map[string]func(a *answer){
		"foreign certificate": func(a *answer) { a.Cert = foreign.records().Certs[0] },
		"own certificate":     func(a *answer) { a.Cert = s.records().Certs[0] },
		"no sponsor":          func(a *answer) { a.Records = member.Records{} },
		"foreign sponsor":     func(a *answer) { a.Records = foreign.records() },
		"short secret":        func(a *answer) { a.Secret = a.Secret[1:] },
		"no success":          func(a *answer) { a.Success = false },
		"network":             func(a *answer) { a.Network = netip.MustParsePrefix("192.168.0.0/16") },
		"other responder":     func(a *answer) { a.Node = "n2" },
	} {
		tok := s.token(1)
		dir := t.TempDir()
		addr := s.serveForged(tok, forge)
		tok.Addrs = []string{addr}
		if err := Join(t.Context(), tok, dir, s.options("n9")); !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: %v, want ErrAnswer", name, err)
		}
		if _, _, err := Load(dir); !errors.Is(err, ErrNotInitialised) {
			t.Errorf("%s: the host believes it joined: %v", name, err)
		}
	}
	tok := s.token(1)
	tok.Addrs = []string{s.serveForged(tok, nil)}
	if err := Join(t.Context(), tok, t.TempDir(), s.options("n9")); !errors.Is(err, ErrAnswer) {
		t.Errorf("answer without a MAC: %v, want ErrAnswer", err)
	}
}

// serveForged answers one request with the sponsor's own answer, forged and
// authenticated anew; a nil forge leaves the MAC out.
func (s *site) serveForged(tok token.Token, forge func(*answer)) string {
	s.t.Helper()
	conf, err := door.ServerTLS(s.id.IDKey())
	if err != nil {
		s.t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	handler := func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		req, err := parseRequest(raw)
		if err != nil {
			s.t.Error(err)
			return
		}
		tab := s.sponsor.table(wall)
		cert, err := s.sponsor.certify(tab, req, 77, wall)
		if err != nil {
			s.t.Error(err)
			return
		}
		body, err := s.sponsor.answer(tab, cert)
		if err != nil {
			s.t.Error(err)
			return
		}
		if forge != nil {
			var a answer
			if err := json.Unmarshal(body, &a); err != nil {
				s.t.Error(err)
				return
			}
			forge(&a)
			if body, err = json.Marshal(a); err != nil {
				s.t.Error(err)
				return
			}
			tag := answerMAC(tok.Secret.Bytes(), req.transcript(tok.Cluster, tok.IDPub, tok.Invite), body)
			w.Header().Set(macHeader, macEncoding.EncodeToString(tag))
		}
		_, _ = w.Write(body)
	}
	srv := &http.Server{Handler: http.HandlerFunc(handler), ReadHeaderTimeout: time.Second}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(tls.NewListener(ln, conf)) }()
	s.t.Cleanup(func() { _ = srv.Close(); <-done })
	return ln.Addr().String()
}

// TestSecretsStaySecret looks for every secret in everything that is printed.
func TestSecretsStaySecret(t *testing.T) {
	s := newSite(t)
	tok := s.token(1)
	dir := t.TempDir()
	wrong := tok
	wrong.Secret = token.RandomSecret(token.SecretLen)
	var out strings.Builder
	fmt.Fprintln(&out, Join(t.Context(), wrong, t.TempDir(), s.options("n2")))
	if err := Join(t.Context(), tok, dir, s.options("n2")); err != nil {
		t.Fatal(err)
	}
	id, _, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = token.Parse(tok.Reveal() + "x")
	fmt.Fprintln(&out, err)
	_, err = token.Read(tok.Reveal(), nil)
	fmt.Fprintln(&out, err)
	for _, v := range []any{tok, &tok, id, *id, s.id, s.invites.List(), tok.Secret, struct{ S token.Secret }{tok.Secret}, struct{ t token.Token }{tok}} {
		fmt.Fprintf(&out, "%v %+v %#v %s %x %q %d\n", v, v, v, v, v, v, v)
		if b, err := json.Marshal(v); err == nil {
			out.Write(b)
		}
	}
	out.WriteString(s.log.String())
	wg, other := id.WGKey(), s.id.WGKey()
	for name, secret := range map[string][]byte{
		"invite secret": tok.Secret.Bytes(), "wrong secret": wrong.Secret.Bytes(), "cluster secret": id.ClusterSecret(),
		"identity key": id.IDKey().Seed(), "wireguard key": wg[:], "sponsor's identity key": s.id.IDKey().Seed(), "sponsor's wireguard key": other[:],
	} {
		for form, text := range map[string]string{
			"hex": hex.EncodeToString(secret), "base64": base64.RawStdEncoding.EncodeToString(secret),
			"base64url": base64.RawURLEncoding.EncodeToString(secret), "raw": string(secret), "list": strings.Trim(fmt.Sprintf("%d", secret), "[]"),
			"go": strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", secret), "[]byte{"), "}"),
		} {
			if strings.Contains(strings.ToLower(out.String()), strings.ToLower(text)) {
				t.Errorf("%s appears as %s", name, form)
			}
		}
	}
	if !strings.Contains(s.log.String(), "host admitted") || !strings.Contains(s.log.String(), "not proven") {
		t.Errorf("the log does not say what happened:\n%s", s.log)
	}
}

func TestServerStopsWithOpenConnections(t *testing.T) {
	s := newSite(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := door.NewServer(door.ServerOptions{Key: s.id.IDKey(), Listener: ln, Handler: s.sponsor})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	conn, err := net.Dial("tcp", ln.Addr().String()) // says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	tc, err := tls.Dial("tcp", ln.Addr().String(), door.ClientTLS(s.id.IDPub)) // handshake only
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tc.Close() }()
	cancel()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the server did not stop")
	}
	if _, err := net.Dial("tcp", ln.Addr().String()); err == nil {
		t.Error("the listener is still open")
	}
}

// TestConcurrentJoins: many hosts at once never share an address or a use.
func TestConcurrentJoins(t *testing.T) {
	s := newSite(t)
	tok := s.token(5)
	const n = 12
	status := make(chan int, n)
	for i := range n {
		c := newCandidate(t, cluster.NodeID(fmt.Sprintf("m%d", i)))
		body := encode(t, c.request(t, tok, wall, nil))
		go func() {
			status <- s.ask(fmt.Sprintf("192.0.2.%d:1", i+1), "POST", door.PathPrefix+tok.Invite, body).StatusCode
		}()
	}
	admitted := 0
	for range n {
		if <-status == http.StatusOK {
			admitted++
		}
	}
	ips := map[netip.Addr]bool{}
	for _, a := range s.admissions() {
		ips[a.Member.IP4] = true
	}
	if admitted != 5 || len(ips) != 5 || len(s.invites.List()[0].Spent) != 5 {
		t.Errorf("%d admitted at %d addresses, want 5", admitted, len(ips))
	}
}

// TestRackJoins lets many hosts behind one address join, more at once than may fail:
// the rate of one source bounds failures only.
func TestRackJoins(t *testing.T) {
	s := newSite(t)
	const n = 4 * door.MaxTries
	tok := s.token(n)
	var asking sync.WaitGroup
	places := make(chan struct{}, door.MaxTries+1)
	for i := range n {
		body := encode(t, newCandidate(t, cluster.NodeID(fmt.Sprintf("m%d", i))).request(t, tok, wall, nil))
		places <- struct{}{}
		asking.Go(func() {
			if got := s.ask("192.0.2.1:1", "POST", door.PathPrefix+tok.Invite, body).StatusCode; got != http.StatusOK {
				t.Errorf("m%d: status %d\n%s", i, got, s.log)
			}
			<-places
		})
	}
	asking.Wait()
}

// A sponsor does not even read the request of a host under an outside worker's name.
func TestOutsideNamesAreNotSponsored(t *testing.T) {
	for _, name := range []cluster.NodeID{cluster.OutsideOthers, cluster.OutsideID(nil)} {
		if _, err := parseRequest([]byte(`{"node_id":"` + string(name) + `"}`)); !errors.Is(err, cluster.ErrHostName) {
			t.Errorf("%s: %v", name, err)
		}
		if err := Join(t.Context(), token.Token{}, t.TempDir(), Options{Node: name}); !errors.Is(err, cluster.ErrHostName) {
			t.Errorf("%s joins: %v", name, err)
		}
	}
}
