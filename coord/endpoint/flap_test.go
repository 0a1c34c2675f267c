package endpoint

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/skein-project/skein/cluster"
)

// TestFlaps: a key that is seen at two endpoints in turn, there and back, is named;
// what moves on is not, nor is a host with two endpoints of its own, nor a new key.
func TestFlaps(t *testing.T) {
	a, b, c := netip.MustParseAddrPort("192.0.2.1:51820"), netip.MustParseAddrPort("198.51.100.9:4000"), netip.MustParseAddrPort("192.0.2.1:51821")
	for _, x := range []struct {
		name  string
		at    []netip.AddrPort
		own   []netip.AddrPort // that the host announces
		want  []netip.AddrPort
		later time.Duration
	}{
		{"two hosts", []netip.AddrPort{a, a, b, b, a, b, a}, []netip.AddrPort{a}, []netip.AddrPort{a, b}, 0},
		{"moved there and back", []netip.AddrPort{a, b, b, b, a, a, a, a}, []netip.AddrPort{a}, nil, 0},
		{"moves on", []netip.AddrPort{a, b, c, a, b, c, a, b, c}, nil, nil, 0},
		{"two endpoints of its own", []netip.AddrPort{a, c, a, c, a, c, a, c}, []netip.AddrPort{a, c}, nil, 0},
		{"long ago", []netip.AddrPort{a, b, a, b, a, b, a}, []netip.AddrPort{a}, nil, flapLife + time.Second},
	} {
		t.Run(x.name, func(t *testing.T) {
			m := cluster.Member{Node: "n2", WGPub: make([]byte, 32), Endpoints: x.own}
			e := New("n1", netip.MustParsePrefix("fd00::/48"))
			now := time.Duration(0)
			for _, at := range x.at {
				now += time.Second
				e.Moved(map[cluster.NodeID]netip.AddrPort{"n2": at})
				e.Look(now, []cluster.Member{m}, 1, 1)
			}
			now += x.later
			if got := e.Flaps(m, now); !slices.Equal(got, x.want) {
				t.Errorf("%v, want %v", got, x.want)
			}
			rekeyed := m
			rekeyed.WGPub = []byte("another key")
			if got := e.Flaps(rekeyed, now); got != nil {
				t.Errorf("with a new key: %v", got)
			}
			if e.Forget("n2"); e.Flaps(m, now) != nil {
				t.Error("not forgotten with the host")
			}
		})
	}
}
