package daemon

import (
	"crypto/ed25519"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/mesh"
)

// TestNamesFile writes the names of members, in any order and with a cluster
// name that is no host name, and never over somebody else's file.
func TestNamesFile(t *testing.T) {
	members := []cluster.Member{
		{Node: "n2", IP4: netip.MustParseAddr("10.86.0.2")},
		{Node: "n1", IP4: netip.MustParseAddr("10.86.0.1"), IP6: netip.MustParseAddr("fd00::1")},
	}
	file := filepath.Join(t.TempDir(), "hosts")
	for _, ms := range [][]cluster.Member{members, {members[1], members[0]}} {
		if err := writeNames(file, "My Lab\n10.0.0.1 evil", ms); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		const want = `# Hosts of cluster "My Lab\n10.0.0.1 evil", written by skein. Changes here are lost.
10.86.0.1 n1 n1.my-lab-10-0-0-1-evil.skein
fd00::1 n1 n1.my-lab-10-0-0-1-evil.skein
10.86.0.2 n2 n2.my-lab-10-0-0-1-evil.skein
`
		if string(text) != want {
			t.Errorf("names\n%s\nwant\n%s", text, want)
		}
	}
	if err := os.WriteFile(file, []byte("127.0.0.1 localhost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeNames(file, "lab", members); !errors.Is(err, errNotNames) {
		t.Errorf("another's file: %v, want %v", err, errNotNames)
	}
	// The same trouble reads the same, so that it is logged once.
	nowhere := filepath.Join(t.TempDir(), "no", "hosts")
	one, two := writeNames(nowhere, "lab", members), writeNames(nowhere, "lab", members)
	if one == nil || one.Error() != two.Error() || !strings.Contains(one.Error(), nowhere) {
		t.Errorf("no directory: %v, then %v", one, two)
	}
}

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
	if err := os.WriteFile(c.file, []byte(`{"version":1,"endpoints":{"n2":["nonsense"]}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err = openEndpoints(dir); err == nil || len(c.known) != 0 {
		t.Errorf("damaged file: %v, %v", c.known, err)
	}
}

// TestRemoveReason refuses a reason that no record can carry before anything
// is done: neither voters nor keys of this empty node are looked at.
func TestRemoveReason(t *testing.T) {
	n := &node{id: &join.Identity{Node: "n1"}}
	for _, reason := range []string{"umgefallen \u00fc", "a\nb", "\x7f", strings.Repeat("x", api.MaxRemoveReason+1)} {
		if _, err := (backend{n}).Remove(t.Context(), "uid:0", "n2", reason); !api.IsCode(err, api.CodeInvalidRequest) {
			t.Errorf("%q: %v", reason, err)
		}
		p := n.remove(t.Context(), "n1", "uid:0", removeRequest{Node: "n2", Reason: reason}).Problem
		if p == nil || p.Code != api.CodeInvalidRequest {
			t.Errorf("%q of another host: %v", reason, p)
		}
	}
}

// TestSeenComesLast: where the others see a host is announced behind what it
// knows itself, and always fits.
func TestSeenComesLast(t *testing.T) {
	seen := netip.MustParseAddrPort("203.0.113.1:1")
	var own []netip.AddrPort
	for range member.MaxEndpoints + 2 {
		got := withSeen(own, seen)
		if len(got) > member.MaxEndpoints || got[len(got)-1] != seen || !slices.Equal(got[:len(got)-1], own[:min(len(own), member.MaxEndpoints-1)]) {
			t.Errorf("%v with %v", own, got)
		}
		own = append(own, netip.AddrPortFrom(netip.MustParseAddr("192.0.2.1"), uint16(len(own)+1)))
	}
}

// TestConflictReports takes what another host reports only in the form in which
// hosts do, and remembers a bounded number of disputes.
func TestConflictReports(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	pub, _ := key.Public().(ed25519.PublicKey)
	var anns [2]string
	for i := range anns {
		rec, err := member.Ann{IDPub: pub, WGPub: [32]byte{1}, Epoch: 1, Priority: uint32(i), Issued: 1, Expires: 2}.Sign(key)
		if err != nil {
			t.Fatal(err)
		}
		anns[i] = rec.String()
	}
	good := cluster.MemberConflict{Node: "n2", Why: "forked", Kept: anns[0], Other: anns[1]}
	if e, ok := evidenceOf(good); !ok || e.Node != "n2" || e.Word() != good.Why {
		t.Errorf("%+v, %t", e, ok)
	}
	n := &node{id: &join.Identity{Node: "n1"}}
	for name, change := range map[string]func(*cluster.MemberConflict){
		"no reason":   func(c *cluster.MemberConflict) { c.Why = "" },
		"own reason":  func(c *cluster.MemberConflict) { c.Why = "bad\nforked" },
		"nothing":     func(c *cluster.MemberConflict) { c.Kept = "" },
		"no record":   func(c *cluster.MemberConflict) { c.Other = "x" },
		"long":        func(c *cluster.MemberConflict) { c.Other = strings.Repeat("A", maxConflictText+1) },
		"cut":         func(c *cluster.MemberConflict) { c.Kept = c.Kept[:20] },
		"escape code": func(c *cluster.MemberConflict) { c.Kept = "\x1b[2J" + c.Kept },
	} {
		c := good
		change(&c)
		if p := n.noteConflict(t.Context(), "n2", c); p == nil || p.Code != api.CodeInvalidRequest {
			t.Errorf("%s: %v", name, p)
		}
	}
	for i := range 3 * maxConflictsKept {
		about := strconv.Itoa(i)
		if n.conflictNoted(about, false) || n.conflictNoted(about, true) || !n.conflictNoted(about, false) {
			t.Fatalf("dispute %d is not new once", i)
		}
	}
	if len(n.conflictsKept) != maxConflictsKept || n.conflictNoted("0", false) {
		t.Errorf("%d disputes remembered", len(n.conflictsKept))
	}
}

// FuzzEndpoints reads any file as a cache: it never panics, and what it takes
// over is bounded and usable.
func FuzzEndpoints(f *testing.F) {
	f.Add([]byte(`{"version":1,"endpoints":{"n2":["192.0.2.1:51820"]}}`))
	f.Add([]byte(`{"version":1,"endpoints":{"":[":0","[::]:1"],"n2":null}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, endpointsFile), text, 0o600); err != nil {
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
