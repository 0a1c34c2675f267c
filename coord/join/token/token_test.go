package token

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/member"
)

var (
	nodeOnion   = member.Onion{1}.String()
	masterOnion = member.Onion{2}.String()
)

func TestSponsorOf(t *testing.T) {
	secret := []byte("secret")
	id := NewID(secret, "n2")
	if !Valid(id) {
		t.Fatalf("%q is no id", id)
	}
	for name, c := range map[string]struct {
		secret, id string
		among      []cluster.NodeID
		want       cluster.NodeID
	}{
		"found":          {"secret", id, []cluster.NodeID{"n1", "n2", "n3"}, "n2"},
		"not among them": {"secret", id, []cluster.NodeID{"n1", "n3"}, ""},
		"nobody":         {"secret", id, nil, ""},
		"other cluster":  {"other", id, []cluster.NodeID{"n2"}, ""},
		"changed":        {"secret", "a" + id[1:], []cluster.NodeID{"n2"}, map[bool]cluster.NodeID{true: "n2"}[id[0] == 'a']},
		"no id":          {"secret", "x", []cluster.NodeID{"n2"}, ""},
	} {
		if got, ok := SponsorOf([]byte(c.secret), c.id, c.among); got != c.want || ok != (c.want != "") {
			t.Errorf("%s: %q, %t", name, got, ok)
		}
	}
}

func TestTokenAddresses(t *testing.T) {
	for addr, good := range map[string]bool{
		"192.0.2.1:51822": true, nodeOnion + ":443": true, Door(masterOnion, 80): true,
		"http://" + masterOnion: false, "http://192.0.2.1:80": false, "https://" + masterOnion + ":80": false,
		"abc.onion:443": false, "http://" + strings.ToUpper(masterOnion) + ":80": false, "http://http://" + masterOnion + ":80": false,
		"x" + nodeOnion + ":443": false, masterOnion + ":0": false,
	} {
		if err := CheckAddrs([]string{addr}); (err == nil) != good {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func FuzzToken(f *testing.F) {
	f.Add(Prefix + base64.RawURLEncoding.EncodeToString([]byte(`{"cluster":"aeaqcaibaeaqcaibaeaqcaibae","addrs":["h:1"],"id_pub":"`+
		strings.Repeat("A", 43)+`=","wg_pubkey":"`+strings.Repeat("A", 43)+`=","root_pub":"`+strings.Repeat("A", 43)+`=","invite":"aaaaaaaaaaaaaaaa","secret":"`+
		strings.Repeat("A", 43)+`=","expires":1700000000}`)))
	f.Add("skein-join-1.AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		tok, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(tok.Reveal())
		if err != nil || again.Reveal() != tok.Reveal() || again.Invite != tok.Invite {
			t.Fatalf("%q is not stable: %v", text, err)
		}
	})
}
