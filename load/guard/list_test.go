package guard

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for _, text := range []string{"api.example.org:443", "10.20.0.0/16:8000-8999", "[2001:db8::/32]:443", "127.0.0.1:80", "[::1]:8080"} {
		if _, err := ParseTarget(text, Limits{Rate: 5}); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		"api": "HOST:PORT", "api:0": "no port", "api:70000": "no port", "api:9-8": "no port", "10.20.1.0/16:80": "10.20.0.0/16", ":80": "neither", "a b:80": "neither",
		"http://x:80": "neither",
	} {
		if _, err := ParseTarget(text, Limits{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := ParseTarget("x:1", Limits{Rate: -1}); err == nil {
		t.Error("a rate below 0")
	}
	for _, never := range []string{"169.254.169.254:80", "169.254.0.0/16:80", "0.0.0.0:80", "[fd00:ec2::254]:80", "100.100.100.200:80", "224.0.0.1:80"} {
		if _, err := ParseList(map[string]Limits{never: {}}); err == nil {
			t.Errorf("%s may stand in a list", never)
		}
	}
}

func TestList(t *testing.T) {
	l, err := ParseList(map[string]Limits{"api.example.org:443": {Rate: 10}, "10.20.0.0/16:8000-8999": {}, "[2001:db8::/32]:443": {}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		at   string
		ok   bool
	}{
		{"api.example.org", "93.184.216.34:443", true},
		{"API.Example.org.", "93.184.216.34:443", true},
		{"api.example.org", "93.184.216.34:80", false},        // another port
		{"api.example.org", "127.0.0.1:443", false},           // rebinding
		{"api.example.org", "10.20.1.1:443", false},           // a private network, on a port that is not allowed
		{"api.example.org", "[64:ff9b::7f00:1]:443", false},   // NAT64 to a loopback address
		{"api.example.org", "[64:ff9b:1::a00:1]:443", false},  // to a private network
		{"api.example.org", "[2002:a00:1::1]:443", false},     // 6to4 to a private network
		{"api.example.org", "[::ffff:10.0.0.1]:443", false},   // mapped
		{"api.example.org", "[64:ff9b::5db8:d822]:443", true}, // NAT64 to the internet
		{"other.example.org", "93.184.216.34:443", false},
		{"other.example.org", "10.20.3.4:8000", true},
		{"10.20.3.4", "10.20.3.4:8999", true},
		{"10.20.3.4", "10.20.3.4:9000", false},
		{"10.21.3.4", "10.21.3.4:8000", false},
		{"2001:db8::1", "[2001:db8::1]:443", true},
		{"2001:db9::1", "[2001:db9::1]:443", false},
	} {
		if err := l.At(c.name, netip.MustParseAddrPort(c.at)); (err == nil) != c.ok {
			t.Errorf("%s at %s: %v", c.name, c.at, err)
		}
	}
	internet, err := ParseList(map[string]Limits{"0.0.0.0/0:80": {}, "[::/0]:80": {}})
	if err != nil {
		t.Fatal(err)
	}
	for addr, ok := range map[string]bool{"93.184.216.34": true, "2001:db8::1": true, "127.0.0.1": false, "10.1.1.1": false, "::1": false, "fd00::1": false, "64:ff9b::a00:1": false} {
		_, err := internet.Named(addr, 80)
		if at := internet.At("x.example.org", netip.AddrPortFrom(netip.MustParseAddr(addr), 80)); (err == nil) != ok || (at == nil) != ok {
			t.Errorf("%s as one of the internet: %v, %v", addr, err, at)
		}
	}
	if found, err := l.Named("api.example.org", 443); err != nil || found.Rate != 10 {
		t.Errorf("%+v, %v", found, err)
	}
	many, err := ParseList(map[string]Limits{"10.0.0.0/8:80": {}, "10.20.0.0/16:80": {Rate: 50}, "10.20.1.0/24:80": {Rate: 500}, "api.example.org:80": {Rate: 7}})
	if err != nil {
		t.Fatal(err)
	}
	for name, rate := range map[string]float64{"10.1.1.1": 0, "10.20.2.1": 50, "10.20.1.1": 500, "api.example.org": 7, "alias.example.org": 50} {
		if found, err := many.Named(name, 80); err != nil || found.Rate != rate {
			t.Errorf("%s: %g, %v, want %g", name, found.Rate, err, rate)
		}
	}
	for _, no := range []string{"127.0.0.1", "10.21.0.1"} {
		if _, err := l.Named(no, 8000); err == nil {
			t.Errorf("%s is allowed", no)
		}
	}
	if _, err := l.Named("other.example.org", 443); err != nil {
		t.Error(err) // its addresses decide
	}
	if _, err := l.Named("other.example.org", 22); err == nil {
		t.Error("port 22 is allowed")
	}
	if err := List(nil).At("x", netip.MustParseAddrPort("93.184.216.34:80")); err == nil {
		t.Error("an empty list allows something")
	}
}

func TestLimits(t *testing.T) {
	for _, bad := range []Limits{{Rate: -1}, {Ramp: -1}, {Connections: -1}, {Rate: MaxTargetRate + 1}, {Connections: MaxConnections + 1}} {
		if _, err := ParseTarget("x:1", bad); err == nil {
			t.Errorf("%+v", bad)
		}
	}
	for _, c := range []struct {
		l    Limits
		at   float64
		want float64
	}{
		{Limits{}, 5, 0}, {Limits{Rate: 50}, 0, 50}, {Limits{Ramp: 10}, 0, 10}, {Limits{Ramp: 10}, 2.5, 35}, {Limits{Rate: 30, Ramp: 10}, 2.5, 30}, {Limits{Ramp: 10}, -3, 10},
	} {
		if got := c.l.At(c.at); got != c.want {
			t.Errorf("%+v at %g: %g, want %g", c.l, c.at, got, c.want)
		}
	}
}
