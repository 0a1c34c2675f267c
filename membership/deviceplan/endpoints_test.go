package deviceplan

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/internal/durable"
	"github.com/skein-project/skein/mesh"
)

// TestEndpointCache remembers where peers were reached, the latest first, over
// a restart, and starts empty with a damaged file.
func TestEndpointCache(t *testing.T) {
	dir := t.TempDir()
	c, err := openEndpoints(dir)
	if err != nil {
		t.Fatal(err)
	}
	at := func(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }
	for _, e := range []string{"192.0.2.1:1", "192.0.2.1:2", "192.0.2.1:3", "192.0.2.1:2", "192.0.2.1:4"} {
		c.learn([]mesh.PeerStatus{
			{Node: "n2", Reachable: true, Endpoint: at(e)},
			{Node: "n3", Endpoint: at("192.0.2.9:1")}, // not reached there
			{Node: "n4", Reachable: true, Endpoint: at("[::ffff:192.0.2.7]:7")},
		})
	}
	if err := c.save(); err != nil || c.dirty {
		t.Fatalf("save: %v, dirty %t", err, c.dirty)
	}
	c, err = openEndpoints(dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := []netip.AddrPort{at("192.0.2.1:4"), at("192.0.2.1:2"), at("192.0.2.1:3")}; !slices.Equal(c.known["n2"], want) {
		t.Errorf("n2 at %v, want %v", c.known["n2"], want)
	}
	if want := []netip.AddrPort{at("192.0.2.7:7")}; !slices.Equal(c.known["n4"], want) || len(c.known["n3"]) != 0 {
		t.Errorf("n4 at %v, want %v; n3 at %v", c.known["n4"], want, c.known["n3"])
	}
	c.keep(func(n cluster.NodeID) bool { return n == "n2" })
	if !c.dirty || len(c.known) != 1 {
		t.Errorf("keeps %v, dirty %t", c.known, c.dirty)
	}
	if err := os.WriteFile(durable.Endpoints.Path(dir), []byte(`{"version":1,"endpoints":{"n2":["nonsense"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err = openEndpoints(dir); err == nil || len(c.known) != 0 {
		t.Errorf("damaged file: %v, %v", c.known, err)
	}
}

// FuzzEndpoints reads any file as a cache: it never panics, and what it takes
// over is bounded and usable.
func FuzzEndpoints(f *testing.F) {
	f.Add([]byte(`{"version":1,"endpoints":{"n2":["192.0.2.1:51820"]}}`))
	f.Add([]byte(`{"version":1,"endpoints":{"":[":0","[::]:1"],"n2":null}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, durable.Endpoints.Name), text, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := openEndpoints(dir)
		if err != nil && len(c.known) > 0 {
			t.Errorf("%v, and yet %v", err, c.known)
		}
		for n, eps := range c.known {
			if len(eps) == 0 || len(eps) > cachedEach {
				t.Errorf("%s at %v", n, eps)
			}
			for _, e := range eps {
				if !e.IsValid() || e.Port() == 0 {
					t.Errorf("%s at %s", n, e)
				}
			}
		}
	})
}
