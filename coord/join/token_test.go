package join

import (
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/skein-project/skein/coord/join/door"
	"github.com/skein-project/skein/coord/join/refusals"
	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/coord/wire"
)

func TestTokenRoundTrip(t *testing.T) {
	s := newSite(t)
	tok := s.token(1)
	text := tok.Reveal()
	if strings.ContainsAny(text, " \n") || !strings.HasPrefix(text, token.Prefix) {
		t.Errorf("token %q", text)
	}
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fromFile, err := token.Read(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	fromStdin, err := token.Read("-", strings.NewReader("  "+text+"\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []token.Token{fromFile, fromStdin} {
		if got.Reveal() != text || got.Invite != tok.Invite || !got.Deadline.Equal(tok.Deadline) || got.Cluster != s.id.Cluster ||
			got.Network != network {
			t.Errorf("read %s, want %s", got, tok)
		}
	}
}

func TestBadTokens(t *testing.T) {
	s := newSite(t)
	good := s.token(1).Reveal()
	body, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(good, token.Prefix))
	if err != nil {
		t.Fatal(err)
	}
	with := func(old, new string) string {
		if !strings.Contains(string(body), old) {
			t.Fatalf("%s not in token", old)
		}
		return token.Prefix + base64.RawURLEncoding.EncodeToString([]byte(strings.Replace(string(body), old, new, 1)))
	}
	for name, text := range map[string]string{
		"empty":          "",
		"prefix":         token.Prefix,
		"other version":  strings.Replace(good, "-1.", "-2.", 1),
		"cut":            good[:len(good)-5],
		"two lines":      good[:50] + "\n" + good[50:],
		"long":           good + strings.Repeat("A", 4096),
		"no secret":      with(`"secret":"`, `"other":"`),
		"short secret":   with(`"secret":"`, `"secret":"AAAA","x":"`),
		"second secret":  with(`"secret":"`, `"SECRET":"AAAA","secret":"`),
		"no address":     with(`"addrs":["`+s.addr+`"]`, `"addrs":[]`),
		"bad address":    with(s.addr, "nowhere"),
		"port 0":         with(s.addr, "host:0"),
		"invite":         with(`"invite":"`, `"invite":"../`),
		"no expiry":      with(`"expires":`, `"later":`),
		"host bits":      with(network.String(), "10.77.0.1/16"),
		"no network":     with(network.String(), "everything"),
		"cluster":        with(`"cluster":"`, `"cluster":"0`),
		"not an object":  token.Prefix + base64.RawURLEncoding.EncodeToString([]byte(`[1]`)),
		"trailing bytes": good + "AAAA",
	} {
		if _, err := token.Read("-", strings.NewReader(text)); !errors.Is(err, token.ErrToken) {
			t.Errorf("%s: %v, want token.ErrToken", name, err)
		}
	}
	if _, err := token.Read(filepath.Join(t.TempDir(), "missing"), nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	if _, err := token.Read(good, nil); err == nil || strings.Contains(err.Error(), good) {
		t.Errorf("token as an argument: %v", err)
	}
}

func TestInvites(t *testing.T) {
	s := newSite(t)
	for name, try := range map[string]func() error{
		"ttl 0":    func() error { _, err := s.invites.Create(s.id, []string{s.addr}, 0, 1, wall); return err },
		"long ttl": func() error { _, err := s.invites.Create(s.id, []string{s.addr}, MaxTTL+1, 1, wall); return err },
		"uses 0":   func() error { _, err := s.invites.Create(s.id, []string{s.addr}, time.Hour, 0, wall); return err },
		"many uses": func() error {
			_, err := s.invites.Create(s.id, []string{s.addr}, time.Hour, MaxUses+1, wall)
			return err
		},
		"no address": func() error { _, err := s.invites.Create(s.id, nil, time.Hour, 1, wall); return err },
	} {
		if try() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if len(s.invites.List()) != 0 {
		t.Fatal("a refused invite is kept")
	}
	tok := s.token(2)
	again, err := OpenInvites(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if l := again.List(); len(l) != 1 || l[0].ID != tok.Invite || l[0].Uses != 2 || !l[0].Open(wall) || l[0].Open(wall.Add(2*time.Hour)) {
		t.Errorf("after a restart: %+v", l)
	}
	if err := again.Revoke(tok.Invite); err != nil {
		t.Fatal(err)
	}
	if again.List()[0].Open(wall) {
		t.Error("a revoked invite is open")
	}
	if err := again.Revoke("aaaa"); !errors.Is(err, door.ErrNoInvite) {
		t.Errorf("revoke of an unknown invite: %v", err)
	}
	if err := again.spend(tok.Invite, spent{}, 1, wall); !errors.Is(err, door.ErrNoInvite) {
		t.Errorf("use of a revoked invite: %v", err)
	}
	for range MaxInvites - 1 {
		// Straight into memory: each Create would write the file.
		again.state.Invites = append(again.state.Invites, inviteFile{Expires: wall.Add(time.Hour)})
	}
	if _, err := again.Create(s.id, []string{s.addr}, time.Hour, 1, wall); err == nil {
		t.Error("more invites than the limit")
	}
	if _, err := again.Create(s.id, []string{s.addr}, time.Hour, 1, wall.Add(keepSpent+2*time.Hour)); err != nil {
		t.Errorf("after old ones ended: %v", err)
	}
}

// TestInviteNotSpentWhenStoreFails: without the write there is no answer.
func TestInviteNotSpentWhenStoreFails(t *testing.T) {
	s := newSite(t)
	tok := s.token(1)
	s.invites.dir = filepath.Join(s.dir, "missing")
	if err := Join(t.Context(), tok, t.TempDir(), s.options("n2")); !errors.Is(err, ErrRefused) {
		t.Errorf("%v, want ErrRefused", err)
	}
	if len(s.admissions()) != 0 || s.count(refusals.Internal) != 1 {
		t.Error("a host was admitted though its use was not written")
	}
	s.invites.dir = s.dir
	if err := Join(t.Context(), tok, t.TempDir(), s.options("n3")); err != nil {
		t.Errorf("after the store works again: %v", err)
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"cluster_token":"v2:x","wg_pubkey":"` + strings.Repeat("A", 43) + `=","wg_endpoint":"","tunnel_ip":"","request_time":1,"node_id":"n1","id_pub":"AAAA","nonce":"AAAA","ann":"AA.` +
		strings.Repeat("A", 86) + `","sig":"AAAA","possession":"AAAA"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := parseRequest(body)
		if err != nil {
			return
		}
		if wire.CheckJSON(body, maxDepth) != nil || len(r.Node) == 0 {
			t.Fatal("accepted what is not strict")
		}
		tr := r.transcript([16]byte{1}, make([]byte, 32), "aaaaaaaaaaaaaaaa")
		if r.checkSecret(tr, make([]byte, token.SecretLen)) || r.checkKeys(tr, [][32]byte{{1}}) == nil {
			t.Fatal("a request without keys was proven")
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"success":true,"responder_node_id":"n1","network":"10.0.0.0/16","cluster_secret":"` + strings.Repeat("A", 43) + `=","records":{"certs":[],"anns":[],"revokes":[]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if a, err := parseAnswer(body); err == nil && (len(a.Secret) != token.SecretLen || !a.Success || !a.Network.IsValid()) {
			t.Fatalf("accepted %+v", a)
		}
	})
}
