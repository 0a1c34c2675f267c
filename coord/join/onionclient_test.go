package join

import (
	"bytes"
	"testing"
	"time"

	"github.com/skein-project/skein/coord/join/token"
	"github.com/skein-project/skein/coord/member"
)

// TestOnionClients: sponsor and token know the same key of a newcomer, until the
// invite's time is over or it is revoked; another invite has another.
func TestOnionClients(t *testing.T) {
	s := newSite(t)
	now := time.Now()
	var toks []token.Token
	for _, ttl := range []time.Duration{time.Hour, time.Minute, time.Hour} {
		tok, err := s.invites.Create(s.id, []string{"192.0.2.1:443"}, ttl, 1, now)
		if err != nil {
			t.Fatal(err)
		}
		read, err := token.Parse(tok.Reveal())
		if err != nil {
			t.Fatal(err)
		}
		toks = append(toks, read)
	}
	want := func(when string, at time.Time, tokens ...token.Token) {
		t.Helper()
		got := s.invites.OnionClients(at)
		if len(got) != len(tokens) {
			t.Fatalf("%s: %d keys, want %d", when, len(got), len(tokens))
		}
		for i, tok := range tokens {
			if !bytes.Equal(got[i][:], tok.OnionClient().PublicKey().Bytes()) {
				t.Errorf("%s: key %d is not that of its token", when, i)
			}
		}
	}
	want("made", now, toks[2], toks[1], toks[0])
	want("once more", now, toks[2], toks[1], toks[0])
	want("one is over", now.Add(2*time.Minute), toks[2], toks[0])
	if err := s.invites.Revoke(toks[0].Invite); err != nil {
		t.Fatal(err)
	}
	s.restart()
	want("one is revoked", now.Add(2*time.Minute), toks[2])
	if a, b := toks[0].OnionClient(), toks[2].OnionClient(); a.Equal(b) {
		t.Error("two invites have one key")
	}
	own := s.id.OnionClient()
	if bytes.Equal(own.Bytes(), s.id.IDKey().Seed()) || own.Equal(toks[0].OnionClient()) {
		t.Error("the host's key is another one's")
	}
}

// TestAnnouncedOnionClient: a host that uses tor announces its key, one that
// does not has none.
func TestAnnouncedOnionClient(t *testing.T) {
	s := newSite(t)
	for _, uses := range []bool{true, false} {
		rec, err := Announce(s.dir, s.id, About{Tor: uses}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		ann, err := member.ParseAnn(rec)
		if err != nil {
			t.Fatal(err)
		}
		want := [32]byte{}
		if uses {
			want = [32]byte(s.id.OnionClient().PublicKey().Bytes())
		}
		if ann.OnionClient != want {
			t.Errorf("tor %t: announced %x", uses, ann.OnionClient)
		}
	}
}
