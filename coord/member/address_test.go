package member

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"testing"
)

func TestSlicesAreDisjointAndInside(t *testing.T) {
	for text, n := range map[string]int{"10.0.0.0/8": 8, "10.77.0.0/16": 8, "192.168.5.0/24": 8, "10.1.2.0/28": 2, "10.1.2.8/29": 1} {
		network := netip.MustParsePrefix(text)
		slices := Slices(network)
		if len(slices) != n {
			t.Errorf("%s: %d slices, want %d", text, len(slices), n)
		}
		for i, s := range slices {
			if CheckCIDR(s) != nil || !network.Contains(s.Addr()) || s.Bits() < network.Bits() {
				t.Errorf("%s: slice %s", text, s)
			}
			for _, o := range slices[:i] {
				if s.Overlaps(o) {
					t.Errorf("%s: %s overlaps %s", text, s, o)
				}
			}
		}
	}
	for _, bad := range []string{"10.0.0.1/16", "10.0.0.0/30", "0.0.0.0/0", "fd00::/48"} {
		if p := netip.MustParsePrefix(bad); CheckCIDR(p) == nil || Slices(p) != nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}

func TestAllocIP4FillsTheSlice(t *testing.T) {
	slice := netip.MustParsePrefix("10.77.32.0/24")
	used := map[netip.Addr]bool{}
	id := func(i int) []byte { return binary.BigEndian.AppendUint64(make([]byte, 24), uint64(i)) }
	for i := range 254 {
		a, err := AllocIP4(slice, id(i), func(a netip.Addr) bool { return used[a] })
		if err != nil {
			t.Fatal(err)
		}
		if used[a] || !slice.Contains(a) || a == slice.Addr() || a.As4()[3] == 255 {
			t.Fatalf("host %d got %s", i, a)
		}
		used[a] = true
	}
	if _, err := AllocIP4(slice, id(999), func(a netip.Addr) bool { return used[a] }); !errors.Is(err, ErrNoAddress) {
		t.Errorf("full slice: %v", err)
	}
	free := func(netip.Addr) bool { return false }
	a, _ := AllocIP4(slice, id(1), free)
	b, _ := AllocIP4(slice, id(1), free)
	if a != b {
		t.Errorf("the same key got %s and %s", a, b)
	}
}

func TestULA(t *testing.T) {
	c := ClusterID{1}
	p := ULAPrefix(c)
	a, b := ULA(c, pub(testKey(1))), ULA(c, pub(testKey(2)))
	if p.Bits() != 48 || !p.Contains(a) || !p.Contains(b) || a == b || !a.IsPrivate() {
		t.Errorf("%s, %s in %s", a, b, p)
	}
	if ULA(ClusterID{2}, pub(testKey(1))) == a {
		t.Error("two clusters share an address")
	}
}
