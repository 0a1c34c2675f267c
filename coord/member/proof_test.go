package member

import (
	"net/netip"
	"testing"

	"github.com/skein-project/skein/cluster"
)

// TestProves takes a contradiction of another host's word only if both records
// are signed by who may and do contradict each other.
func TestProves(t *testing.T) {
	tab, n1, n2 := started(t)
	n3, n4 := newHost(3), newHost(4)
	if _, err := tab.AddAll(Records{Certs: []Signed{signCert(t, n3.cert(0, 3), n1.key)}, Anns: []Signed{n3.announce(t, 1)}}, t0); err != nil {
		t.Fatal(err)
	}
	ann := func(h host, change func(*Ann)) Signed {
		a := h.ann(1)
		change(&a)
		return signAnn(t, a, h.key)
	}
	as := func(h host, node string, last byte) Cert {
		c := h.cert(0, last)
		c.Node = cluster.NodeID(node)
		return c
	}
	forged := func(s Signed) Signed {
		s.Sig = append([]byte(nil), s.Sig...)
		s.Sig[0] ^= 1
		return s
	}
	whole := func(*Ann) {}
	second := func(a *Ann) { a.Priority = 1 }
	later := func(a *Ann) { a.Priority, a.Epoch = 1, 2 }
	stolen := func(a *Ann) { a.WGPub = [32]byte(pub(n2.key)) }
	next := func(a *Ann) { a.Next, a.NextAt = [32]byte(pub(n2.key)), t0.Unix() }
	n2cert := signCert(t, n2.cert(0, 2), n1.key)
	noIP := as(n3, "n2", 3)
	elsewhere := n4.cert(0, 2)
	elsewhere.IP4 = netip.MustParseAddr("10.77.0.9")
	for name, c := range map[string]struct {
		e    Evidence
		want bool
	}{
		"forked":             {Evidence{"n2", ErrForked, ann(n2, whole), ann(n2, second), 0}, true},
		"the same twice":     {Evidence{"n2", ErrForked, ann(n2, whole), ann(n2, whole), 0}, false},
		"other epochs":       {Evidence{"n2", ErrForked, ann(n2, whole), ann(n2, later), 0}, false},
		"another's name":     {Evidence{"n1", ErrForked, ann(n2, whole), ann(n2, second), 0}, false},
		"forged kept":        {Evidence{"n2", ErrForked, forged(ann(n2, whole)), ann(n2, second), 0}, false},
		"forged other":       {Evidence{"n2", ErrForked, ann(n2, whole), forged(ann(n2, second)), 0}, false},
		"a stranger forks":   {Evidence{"n4", ErrForked, ann(n4, whole), ann(n4, second), 0}, false},
		"two keys":           {Evidence{"n2", ErrForked, ann(n2, whole), ann(n3, stolen), 0}, false},
		"stolen key":         {Evidence{"n2", ErrConflict, ann(n2, whole), ann(n3, stolen), 0}, true},
		"stolen next key":    {Evidence{"n2", ErrConflict, ann(n2, whole), ann(n3, next), 0}, true},
		"a stranger's":       {Evidence{"n2", ErrConflict, ann(n2, whole), ann(n4, stolen), 0}, false},
		"own keys":           {Evidence{"n2", ErrConflict, ann(n2, whole), ann(n3, whole), 0}, false},
		"one name":           {Evidence{"n2", ErrConflict, n2cert, signCert(t, noIP, n1.key), 0}, true},
		"one address":        {Evidence{"n2", ErrConflict, n2cert, signCert(t, n4.cert(0, 2), n1.key), 0}, true},
		"one key, two names": {Evidence{"n2", ErrConflict, n2cert, signCert(t, as(n2, "n4", 2), n1.key), 0}, true},
		"a renewal":          {Evidence{"n2", ErrConflict, n2cert, signCert(t, func() Cert { c := n2.cert(0, 2); c.Serial = 9; return c }(), n1.key), 0}, false},
		"no contradiction":   {Evidence{"n2", ErrConflict, n2cert, signCert(t, elsewhere, n1.key), 0}, false},
		"no sponsor's":       {Evidence{"n2", ErrConflict, n2cert, signCert(t, n4.cert(0, 2), n3.key), 0}, false},
		"forged cert":        {Evidence{"n2", ErrConflict, n2cert, forged(signCert(t, n4.cert(0, 2), n1.key)), 0}, false},
		"certs as fork":      {Evidence{"n2", ErrForked, n2cert, signCert(t, n4.cert(0, 2), n1.key), 0}, false},
		"cert and ann":       {Evidence{"n2", ErrConflict, n2cert, ann(n3, stolen), 0}, false},
		"ann and cert":       {Evidence{"n2", ErrConflict, ann(n3, stolen), n2cert, 0}, false},
		"nothing":            {Evidence{Node: "n2", Why: ErrForked}, false},
	} {
		if got := tab.Proves(c.e); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	// All that one pair of keys ever signs is about the same.
	a := Evidence{Node: "n2", Why: ErrForked, Kept: ann(n2, whole), Other: ann(n2, second)}
	b := Evidence{Node: "n2", Why: ErrForked, Kept: ann(n2, later), Other: ann(n2, whole)}
	if a.About() != b.About() {
		t.Error("two forks of one key are two disputes")
	}
	c := Evidence{Node: "n2", Why: ErrConflict, Kept: ann(n2, whole), Other: ann(n3, stolen)}
	if d := (Evidence{Node: "n3", Why: ErrConflict, Kept: c.Other, Other: c.Kept}); c.About() != d.About() || c.About() == a.About() {
		t.Error("the order of records makes another dispute")
	}
}
