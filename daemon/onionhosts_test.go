package daemon

import (
	"errors"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord"
	"github.com/skein-project/skein/lease"
	"github.com/skein-project/skein/publisher"
	"github.com/skein-project/skein/publisher/descriptor"
)

// TestPublishes: who has the key stands in for a publisher that has none.
func TestPublishes(t *testing.T) {
	all := []keeper{{"n2", 10}, {"n3", 5}, {"n4", 5}}
	for _, c := range []struct {
		name    string
		self    cluster.NodeID
		d       lease.Duty
		keepers []keeper
		want    bool
	}{
		{"has duty and key", "n2", lease.Duty{Publisher: "n2", Publishing: true}, all, true},
		{"has the duty, no key", "n1", lease.Duty{Publisher: "n1", Publishing: true}, all, false},
		{"the publisher has the key", "n3", lease.Duty{Publisher: "n2"}, all, false},
		{"stands in: best priority, first name", "n3", lease.Duty{Publisher: "n1"}, all, true},
		{"another stands in", "n4", lease.Duty{Publisher: "n1"}, all, false},
		{"nobody is known yet", "n3", lease.Duty{}, all, false},
		{"alone", "n2", lease.Duty{Publisher: "n1"}, all[:1], true},
	} {
		if got := publishes(c.self, c.d, c.keepers, true); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
		if got := publishes(c.self, c.d, c.keepers, false); got != (c.want && c.d.Publishing) {
			t.Errorf("%s, who is not known: %t", c.name, got)
		}
	}
}

// TestPublishTerm: a host that says to hold some term moves nobody's, and no term
// is one that revisions have no room for.
func TestPublishTerm(t *testing.T) {
	for _, c := range []struct {
		name         string
		d            lease.Duty
		logged, want cluster.Term
	}{
		{"own lease, not yet in the log", lease.Duty{Publisher: "n1", Publishing: true, ByLease: true, Term: 7}, 6, 7},
		{"another's word", lease.Duty{Publisher: "n2", ByLease: true, Term: 1 << 40}, 6, 6},
		{"stands in", lease.Duty{Publisher: "n1", Publishing: true}, 6, 6},
		{"a log beyond all terms", lease.Duty{}, 1 << 40, descriptor.MaxRevisionTerm},
	} {
		if got := publishTerm(c.d, "n1", c.logged); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func pieces(t *testing.T, s publisher.Share) coord.IntroPoints {
	t.Helper()
	list, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return coord.IntroPoints{Points: list}
}

// TestShares: what cannot be read leaves what was read before, a stolen
// address is refused, and a suspected host stays while its onion answers.
func TestShares(t *testing.T) {
	k1, k2 := descriptor.NewSecretKey([32]byte{1}), descriptor.NewSecretKey([32]byte{2})
	a1, a2 := k1.Address(), k2.Address()
	p1, p2 := [64]byte(k1.Sign(publisher.ProofText("n1"))), [64]byte(k2.Sign(publisher.ProofText("n2")))
	master := descriptor.NewSecretKey([32]byte{3}).Address()
	member := func(n cluster.NodeID, h cluster.Health, p coord.IntroPoints) coord.MemberView {
		return coord.MemberView{Member: cluster.Member{Node: n}, Health: h, IntroPoints: p}
	}
	masters := []descriptor.Address{master}
	one := pieces(t, publisher.Share{Address: a1, Proof: p1, Weight: 1, Text: []byte("x"), Serves: masters, Keys: masters})
	two := pieces(t, publisher.Share{Address: a2, Proof: p2, Weight: 1, Text: []byte("y"), Serves: masters})
	thief := pieces(t, publisher.Share{Address: a1, Proof: p1, Weight: 1, Text: []byte("x"), Serves: masters})
	v := &coord.View{Self: "n1", Members: []coord.MemberView{
		member("n1", cluster.Alive, one), member("n2", cluster.Suspect, two), member("n3", cluster.Alive, thief),
	}}
	s := newShares()
	refused := s.look(v)
	if len(refused) != 1 || refused[0].Node != "n3" || !errors.Is(refused[0].Err, publisher.ErrShare) {
		t.Fatalf("refused %v", refused)
	}
	if again := s.look(v); len(again) != 0 {
		t.Errorf("refused once more: %v", again)
	}
	yes := func(cluster.NodeID, descriptor.Address) bool { return true }
	hosts, before := s.serving(v, master, yes)
	if len(hosts) != 2 {
		t.Fatalf("hosts %v", hosts)
	}
	if hosts, _ := s.serving(v, a1, yes); len(hosts) != 0 {
		t.Errorf("serve an address that they do not answer for: %v", hosts)
	}
	if k := s.keepers(v, master); len(k) != 1 || k[0].node != "n1" {
		t.Errorf("keepers %v", k)
	}
	v.Members = append(v.Members, member("n4", cluster.Alive, coord.IntroPoints{}), member("n5", cluster.Alive, coord.IntroPoints{Known: true}))
	for node, known := range map[cluster.NodeID]bool{"n2": true, "n4": false, "n5": true, "n6": false} {
		if s.knows(v, node) != known {
			t.Errorf("knows the share of %s: %t", node, !known)
		}
	}
	without, after := s.serving(v, master, func(cluster.NodeID, descriptor.Address) bool { return false })
	if len(without) != 1 || without[0].Node != "n1" || before == after {
		t.Errorf("hosts %v", without)
	}
	v.Members[0].IntroPoints = coord.IntroPoints{Points: [][]byte{[]byte("garbage")}}
	if refused := s.look(v); len(refused) != 1 || refused[0].Node != "n1" {
		t.Errorf("refused %v", refused)
	}
	if hosts, _ := s.serving(v, master, yes); len(hosts) != 2 || string(hosts[0].Text) != "x" {
		t.Errorf("garbage replaced what was good: %v", hosts)
	}
	v.Members = v.Members[1:]
	s.look(v)
	if hosts, _ := s.serving(v, master, yes); len(hosts) != 1 || hosts[0].Node != "n2" {
		t.Errorf("a host that is no member serves: %v", hosts)
	}
}
