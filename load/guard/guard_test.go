package guard

import (
	"net/netip"
	"strings"
	"testing"
)

func TestRefuse(t *testing.T) {
	g := Guard{Never: []netip.Prefix{netip.MustParsePrefix("10.86.0.0/16")}}
	for addr, want := range map[string]string{
		"169.254.169.254":        "secrets",
		"100.100.100.200":        "secrets",
		"168.63.129.16":          "secrets",
		"192.0.0.192":            "secrets",
		"fd00:ec2::254":          "secrets",
		"::ffff:169.254.169.254": "secrets",
		"::169.254.169.254":      "IPv4-compatible",
		"64:ff9b::a9fe:a9fe":     "NAT64",
		"64:ff9b:1::a9fe:a9fe":   "NAT64",
		"2002:a9fe:a9fe::1":      "6to4",
		"2001:0:1:2::5601:5601":  "Teredo", // the inner address is inverted
		"2002:0a56:0001::1":      "6to4 it means 10.86.0.1: it is of the mesh",
		"169.254.7.7":            "link-local",
		"fe80::1":                "link-local",
		"fe80::1%eth0":           "link-local",
		"224.0.0.1":              "many hosts",
		"ff02::1":                "many hosts",
		"255.255.255.255":        "many hosts",
		"0.0.0.0":                "unspecified",
		"0.1.2.3":                "unspecified",
		"::":                     "unspecified",
		"10.86.3.4":              "of the mesh, 10.86.0.0/16",
		"::ffff:10.86.3.4":       "of the mesh",
		"127.0.0.1":              "",
		"::1":                    "",
		"10.87.0.1":              "",
		"192.168.1.1":            "",
		"8.8.8.8":                "",
		"2001:4860:4860::8888":   "",
		"2002:0808:0808::1":      "",
	} {
		why := g.Refuse(netip.MustParseAddr(addr))
		if want == "" && why != "" || !strings.Contains(why, want) {
			t.Errorf("%s: %q, want %q", addr, why, want)
		}
	}
	if g.Refuse(netip.Addr{}) == "" {
		t.Error("no address at all may be dialled")
	}
}

func TestPublic(t *testing.T) {
	for addr, want := range map[string]bool{
		"8.8.8.8": true, "2001:4860::1": true, "127.0.0.1": false, "::1": false, "10.1.1.1": false, "fd00::1": false, "100.64.1.1": false,
		"::ffff:192.168.0.1": false, "172.32.0.1": true,
	} {
		if got := Public(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %t", addr, got)
		}
	}
}
