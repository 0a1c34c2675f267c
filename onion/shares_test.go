package onion

import (
	"errors"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/wire"
	"github.com/skein-project/skein/onion/policy"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
)

func memberOf(t *testing.T, n cluster.NodeID, health cluster.Health, share *publisher.Share) Member {
	t.Helper()
	m := Member{Node: n, Health: health}
	if share != nil {
		pieces, err := share.Encode()
		if err != nil {
			t.Fatal(err)
		}
		m.say(pieces...)
	}
	return m
}

// say has a member send these pieces.
func (m *Member) say(pieces ...[]byte) {
	var all []wire.SharePiece
	for _, p := range pieces {
		all = append(all, wire.SharePiece{Data: p})
	}
	m.Pieces, m.Digest = pieces, wire.ShareDigest(all)
}

// TestShares: what cannot be read leaves what was read before, a stolen
// address is refused, and a suspected host stays while its onion answers.
func TestShares(t *testing.T) {
	k1, k2 := descriptor.NewSecretKey([32]byte{1}), descriptor.NewSecretKey([32]byte{2})
	a1, a2 := k1.Address(), k2.Address()
	p1, p2 := [64]byte(k1.Sign(publisher.ProofText("n1"))), [64]byte(k2.Sign(publisher.ProofText("n2")))
	master := descriptor.NewSecretKey([32]byte{3}).Address()
	masters := []descriptor.Address{master}
	v := View{Members: []Member{
		memberOf(t, "n1", cluster.Alive, &publisher.Share{Address: a1, Proof: p1, Weight: 1, Healthy: true, Text: []byte("x"), Serves: masters, Keys: masters}),
		memberOf(t, "n2", cluster.Suspect, &publisher.Share{Address: a2, Proof: p2, Weight: 1, Healthy: true, Text: []byte("y"), Serves: masters}),
		memberOf(t, "n3", cluster.Alive, &publisher.Share{Address: a1, Proof: p1, Weight: 1, Healthy: true, Text: []byte("x"), Serves: masters}),
	}}
	s := newShares()
	refused := s.read(v)
	if len(refused) != 1 || refused[0].Node != "n3" || !errors.Is(refused[0].Err, publisher.ErrShare) {
		t.Fatalf("refused %v", refused)
	}
	if again := s.read(v); len(again) != 0 {
		t.Errorf("refused once more: %v", again)
	}
	p := policy.New()
	serving := func(a descriptor.Address) ([]publisher.Host, policy.Placement) {
		d := p.Decide(policy.Input{Self: "n1", Now: 1, Hosts: s.policy(v), Addresses: []descriptor.Address{a}})
		return s.at(d.Addresses[0].Hosts), d.Addresses[0]
	}
	hosts, placement := serving(master)
	if len(hosts) != 2 {
		t.Fatalf("hosts %v", hosts)
	}
	if k := placement.Keepers; len(k) != 1 || k[0] != "n1" {
		t.Errorf("keepers %v", k)
	}
	if hosts, _ := serving(a1); len(hosts) != 0 {
		t.Errorf("serve an address that they do not answer for: %v", hosts)
	}
	v.Members = append(v.Members, memberOf(t, "n4", cluster.Alive, nil), Member{Node: "n5", Health: cluster.Alive, Known: true})
	for _, h := range s.policy(v) {
		if known := h.Node != "n4"; h.Known != known {
			t.Errorf("knows the share of %s: %t", h.Node, h.Known)
		}
	}
	p.Answered("n2", false, 1)
	without, _ := serving(master)
	if len(without) != 1 || without[0].Node != "n1" {
		t.Errorf("hosts %v", without)
	}
	p.Answered("n2", true, 1)
	v.Members[0].say([]byte("garbage"))
	if refused := s.read(v); len(refused) != 1 || refused[0].Node != "n1" {
		t.Errorf("refused %v", refused)
	}
	if hosts, _ := serving(master); len(hosts) != 2 || string(hosts[0].Text) != "x" {
		t.Errorf("garbage replaced what was good: %v", hosts)
	}
	v.Members = v.Members[1:]
	s.read(v)
	if hosts, _ := serving(master); len(hosts) != 1 || hosts[0].Node != "n2" {
		t.Errorf("a host that is no member serves: %v", hosts)
	}
}

// TestFailing: a host fails by its share or by all that it says of its backends.
func TestFailing(t *testing.T) {
	up, down := wire.Backend{Name: "a", Healthy: true}, wire.Backend{Name: "b"}
	for _, c := range []struct {
		name     string
		healthy  bool
		backends []wire.Backend
		want     bool
	}{
		{"says nothing", true, nil, false},
		{"by its share, of an earlier version too", false, nil, true},
		{"one of two", true, []wire.Backend{down, up}, false},
		{"all", true, []wire.Backend{down, down}, true},
		{"healthy again, share under way", false, []wire.Backend{up}, true},
	} {
		if got := failing(publisher.Share{Healthy: c.healthy}, c.backends); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
