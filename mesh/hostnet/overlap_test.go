package hostnet

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/skein-project/skein/mesh/device"
)

func TestFindOverlap(t *testing.T) {
	networks := []netip.Prefix{netip.MustParsePrefix("10.86.0.0/16"), netip.MustParsePrefix("fd00:86::/48")}
	for _, c := range []struct {
		prefix string
		route  bool
		want   string // in the error; empty: none
	}{
		{"10.85.0.1/16", false, ""},
		{"10.86.3.4/32", false, "10.86.0.0/16 and the address 10.86.3.4/32 on eth0"},
		{"10.86.3.4/8", false, "address 10.86.3.4/8"},
		{"10.0.0.0/8", true, "route 10.0.0.0/8"},
		{"10.86.128.0/17", true, "route 10.86.128.0/17"},
		{"0.0.0.0/0", true, ""},
		{"0.0.0.0/1", true, ""},
		{"fd00:86:0:1::/64", true, "fd00:86::/48 and the route"},
		{"fd00::/8", true, "fd00::/8"},
		{"::/0", true, ""},
		{"fd00:87::1/64", false, ""},
		{"127.0.0.1/8", false, ""},
	} {
		err := findOverlap(networks, []used{{prefix: netip.MustParsePrefix(c.prefix), route: c.route, dev: "eth0"}})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.prefix, err)
		case c.want != "" && (!errors.Is(err, device.ErrOverlap) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.prefix, err, c.want)
		}
	}
}
