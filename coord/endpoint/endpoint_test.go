package endpoint

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/skein-project/skein/cluster"
)

// TestWhereThisHostIs judges what reporters say about this host.
func TestWhereThisHostIs(t *testing.T) {
	const own, lan, pub, lie, lie2 = "10.1.1.1:51820", "10.20.30.40:51820", "198.51.100.7:51820", "203.0.113.66:1", "203.0.113.67:1"
	for name, c := range map[string]struct {
		said  []string
		alive int // others
		want  string
		nat   bool
	}{
		"nobody":                     {nil, 3, "", false},
		"the only other":             {[]string{pub}, 1, pub, true},
		"one of two others":          {[]string{pub}, 2, "", false},
		"one of two, one is down":    {[]string{pub, lie}, 1, "", false},
		"two of two":                 {[]string{pub, pub}, 2, pub, true},
		"one lies, of three":         {[]string{pub, lie, pub}, 3, pub, true},
		"one lies, one is right":     {[]string{pub, lie}, 2, "", false},
		"one lies publicly":          {[]string{lan, lan, lie}, 3, lan, true},
		"one lies among neighbours":  {[]string{own, own, own, lie}, 4, own, false},
		"neighbours and the distant": {[]string{own, own, own, pub, pub}, 5, pub, true},
		"a port for each":            {[]string{pub, "198.51.100.7:2", "198.51.100.7:3"}, 3, "", true},
		"each says something else":   {[]string{pub, lie, lie2}, 3, "", false},
		"two lie among many":         {[]string{own, own, own, own, own, own, own, lie, lie}, 9, own, false},
	} {
		e := New("host-a", netip.MustParsePrefix("fd00::/48"))
		e.SetOwn([]netip.Addr{netip.MustParseAddrPort(own).Addr()})
		for i, at := range c.said {
			e.seenAs[cluster.NodeID(fmt.Sprintf("n%d", i))] = sighting{at: netip.MustParseAddrPort(at)}
		}
		want := Place{NAT: c.nat}
		if c.want != "" {
			want.At = netip.MustParseAddrPort(c.want)
		}
		if got := e.agreed(c.alive); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
		// It counts only when it stays the same for a while.
		e.learnPublic(0, c.alive)
		e.learnPublic(publicHold/2, c.alive)
		if e.public != (Place{}) {
			t.Errorf("%s: believed at once", name)
		}
		kept := e.seenAs
		e.seenAs = map[cluster.NodeID]sighting{}
		if len(kept) > 0 && want != (Place{}) {
			e.learnPublic(publicHold-1, c.alive)
		}
		e.seenAs = kept
		e.learnPublic(publicHold, c.alive)
		if want != (Place{}) && e.public != (Place{}) {
			t.Errorf("%s: believed though it changed", name)
		}
		if e.learnPublic(2*publicHold, c.alive); e.public != want {
			t.Errorf("%s: %+v in the end", name, e.public)
		}
	}
}
