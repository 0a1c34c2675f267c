package join

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join/door"
	"github.com/skein-project/skein/coord/join/refusals"
	"github.com/skein-project/skein/coord/join/token"
)

// spentOf is how many uses of an invite are spent.
func (s *site) spentOf(tok token.Token) int {
	s.t.Helper()
	inv, ok := s.invites.get(tok.Invite)
	if !ok {
		s.t.Fatalf("invite %s is not known", tok.Invite)
	}
	return len(inv.Spent)
}

// TestChangedTokenSpendsNothing: whatever was changed in a token on its way, no use
// is spent and nobody is admitted, and the token itself stays good.
func TestChangedTokenSpendsNothing(t *testing.T) {
	for name, change := range map[string]func(*token.Token){
		"root key":      func(t *token.Token) { t.RootPub = slices.Clone(t.RootPub); t.RootPub[0] ^= 1 },
		"cluster":       func(t *token.Token) { t.Cluster[0] ^= 1 },
		"network":       func(t *token.Token) { t.Network = netip.MustParsePrefix("10.78.0.0/16") },
		"no network":    func(t *token.Token) { t.Network = netip.Prefix{} },
		"end":           func(t *token.Token) { t.Deadline = t.Deadline.Add(time.Hour) },
		"identity key":  func(t *token.Token) { t.IDPub = slices.Clone(t.IDPub); t.IDPub[0] ^= 1 },
		"wireguard key": func(t *token.Token) { t.WGPub[0] ^= 1 },
		"invite":        func(t *token.Token) { t.Invite = strings.Repeat("a", token.IDLen) },
		"secret":        func(t *token.Token) { t.Secret = token.RandomSecret(token.SecretLen) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			tok := s.token(1)
			changed := tok
			change(&changed)
			dir := t.TempDir()
			if err := Join(t.Context(), changed, dir, s.options("n2")); err == nil {
				t.Error("joined")
			}
			if n := s.spentOf(tok); n != 0 || len(s.admissions()) != 0 {
				t.Errorf("%d uses spent, %d hosts admitted", n, len(s.admissions()))
			}
			if err := Join(t.Context(), tok, dir, s.options("n2")); err != nil || s.spentOf(tok) != 1 {
				t.Errorf("with the token as it was made: %v, %d uses spent", err, s.spentOf(tok))
			}
		})
	}
}

// TestChangedTokenIsNamed: the sponsor's log tells a token that was changed from one
// that is another's.
func TestChangedTokenIsNamed(t *testing.T) {
	s := newSite(t)
	tok := s.token(1)
	tok.RootPub = pubOf(t, 9)
	if err := Join(t.Context(), tok, t.TempDir(), s.options("n2")); !errors.Is(err, ErrRefused) {
		t.Errorf("%v", err)
	}
	if s.count(refusals.Token) != 1 || !strings.Contains(s.log.String(), "changed on its way") || !strings.Contains(s.log.String(), "n2") {
		t.Errorf("%d times, log:\n%s", s.count(refusals.Token), s.log)
	}
}

// between serves s by a handler that stands before the sponsor, and returns a token
// for it.
func (s *site) between(uses int, h func(n int, sponsor http.Handler, w http.ResponseWriter, r *http.Request)) token.Token {
	s.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	var asked atomic.Int64
	srv, err := door.NewServer(door.ServerOptions{Key: s.id.IDKey(), Listener: ln, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h(int(asked.Add(1)), s.sponsor, w, r)
	})})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- srv.Run(ctx) }()
	s.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	})
	tok, err := s.invites.Create(s.id, []string{ln.Addr().String()}, time.Hour, uses, s.wall())
	if err != nil {
		s.t.Fatal(err)
	}
	return tok
}

// lost is an answer that nobody gets.
type lost struct{ header http.Header }

func (l lost) Header() http.Header         { return l.header }
func (l lost) Write(b []byte) (int, error) { return len(b), nil }
func (l lost) WriteHeader(int)             {}

// TestNewcomerDies at each step: until it has confirmed, no use is spent and another
// host may have it; afterwards it gets what it was given.
func TestNewcomerDies(t *testing.T) {
	for step, spent := range []int{0, 1} {
		for _, before := range []bool{true, false} { // before the sponsor gets the request, or after
			want := spent
			if before {
				want = 0
			}
			t.Run(fmt.Sprintf("step %d, before %t", step+1, before), func(t *testing.T) {
				s := newSite(t)
				ctx, die := context.WithCancel(t.Context())
				defer die()
				tok := s.between(1, func(n int, sponsor http.Handler, w http.ResponseWriter, r *http.Request) {
					if n != step+1 {
						sponsor.ServeHTTP(w, r)
						return
					}
					if !before {
						sponsor.ServeHTTP(lost{http.Header{}}, r)
					}
					die()
					panic(http.ErrAbortHandler)
				})
				dir := t.TempDir()
				if err := Join(ctx, tok, dir, s.options("n2")); err == nil {
					t.Fatal("joined")
				}
				if got := s.spentOf(tok); got != want || len(s.admissions()) != want {
					t.Fatalf("%d uses spent, %d hosts admitted, want %d", got, len(s.admissions()), want)
				}
				other := Join(t.Context(), tok, t.TempDir(), s.options("n3"))
				if want == 0 && other != nil || want == 1 && !errors.Is(other, ErrRefused) {
					t.Errorf("another host: %v", other)
				}
				again := Join(t.Context(), tok, dir, s.options("n2"))
				if want == 0 && !errors.Is(again, ErrRefused) || want == 1 && again != nil {
					t.Errorf("the same host again: %v", again)
				}
				if s.spentOf(tok) != 1 {
					t.Errorf("%d uses spent in the end", s.spentOf(tok))
				}
			})
		}
	}
}

// TestJoinerAsksAgainAfterACut: a connection that ends before the answer, at either
// step, is no answer: it asks again, and spends one use.
func TestJoinerAsksAgainAfterACut(t *testing.T) {
	for _, cuts := range [][]int{{1}, {2}, {1, 2, 3, 5}} {
		for _, before := range []bool{true, false} {
			s := newSite(t)
			tok := s.between(1, func(n int, sponsor http.Handler, w http.ResponseWriter, r *http.Request) {
				if slices.Contains(cuts, n) {
					if !before {
						sponsor.ServeHTTP(lost{http.Header{}}, r)
					}
					panic(http.ErrAbortHandler)
				}
				sponsor.ServeHTTP(w, r)
			})
			o := s.options("n2")
			o.Rand = func() float64 { return 0 }
			if err := Join(t.Context(), tok, t.TempDir(), o); err != nil || s.spentOf(tok) != 1 {
				t.Errorf("cut at %v, before %t: %v, %d uses spent", cuts, before, err, s.spentOf(tok))
			}
		}
	}
}

// TestJoinsShareUses: of hosts that ask and confirm at the same time, as many get in
// as the invite has uses, and no offer keeps a use from another.
func TestJoinsShareUses(t *testing.T) {
	s := newSite(t)
	const hosts, uses = 8, 5
	tok := s.token(uses)
	ends := make(chan error, hosts)
	for i := range hosts {
		dir, o := t.TempDir(), s.options(cluster.NodeID(fmt.Sprintf("m%d", i)))
		go func() { ends <- Join(t.Context(), tok, dir, o) }()
	}
	joined := 0
	for range hosts {
		switch err := <-ends; {
		case err == nil:
			joined++
		case !errors.Is(err, ErrRefused):
			t.Error(err)
		}
	}
	addrs := map[netip.Addr]bool{}
	for _, a := range s.admissions() {
		addrs[a.Member.IP4] = true
	}
	if joined != uses || s.spentOf(tok) != uses || len(addrs) != uses {
		t.Errorf("%d joined at %d addresses, %d uses spent", joined, len(addrs), s.spentOf(tok))
	}
}

// TestSponsorOfTheVersionBefore knows no proof and admits at the first request.
func TestSponsorOfTheVersionBefore(t *testing.T) {
	s := newSite(t)
	asked := 0
	tok := s.between(1, func(n int, sponsor http.Handler, w http.ResponseWriter, r *http.Request) {
		asked = n
		r.Header.Del(proofHeader)
		sponsor.ServeHTTP(w, r)
	})
	if err := Join(t.Context(), tok, t.TempDir(), s.options("n2")); err != nil || asked != 1 || s.spentOf(tok) != 1 {
		t.Errorf("%v, asked %d times, %d uses spent", err, asked, s.spentOf(tok))
	}
}

// TestJoinerOfTheVersionBefore sends no proof: it is admitted at once.
func TestJoinerOfTheVersionBefore(t *testing.T) {
	s := newSite(t)
	tok := s.token(1)
	c := newCandidate(t, "n2")
	r := s.ask("192.0.2.1:1", "POST", door.PathPrefix+tok.Invite, encode(t, c.request(t, tok, wall, nil)))
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK || s.spentOf(tok) != 1 {
		t.Fatalf("%s, %v, %d uses spent", r.Status, err, s.spentOf(tok))
	}
	if a, err := parseAnswer(body); err != nil || a.Cert.IsZero() {
		t.Errorf("%v", err)
	}
}

// TestProofComesFirst: the first 200 bytes of a request show the token.
func TestProofComesFirst(t *testing.T) {
	s := newSite(t)
	tok := s.token(1)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	tok.Addrs = []string{ln.Addr().String()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	dir := t.TempDir()
	go func() { done <- Join(ctx, tok, dir, s.options("n2")) }()
	inner, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	conf, err := door.ServerTLS(s.id.IDKey())
	if err != nil {
		t.Fatal(err)
	}
	conn := tls.Server(inner, conf)
	head := make([]byte, 200)
	if _, err := io.ReadFull(conn, head); err != nil {
		t.Fatal(err)
	}
	proof, err := tok.Proof(token.Ask, conn.ConnectionState())
	if err != nil || !strings.Contains(string(head), "\r\n"+proofHeader+": "+proof+"\r\n") || !strings.Contains(string(head), "\r\n\r\n") {
		t.Errorf("%v, begins with %q", err, head)
	}
	cancel()
	_ = conn.Close()
	if err := <-done; err == nil {
		t.Error("joined")
	}
}
