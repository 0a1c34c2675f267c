package cluster

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseNodeID(t *testing.T) {
	for _, ok := range []string{"a", "n1", "web-01", strings.Repeat("x", MaxNodeIDLen)} {
		if _, err := ParseNodeID(ok); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for _, bad := range []string{"", "-a", "a-", "A", "n_1", "n 1", "ä", "a/b", strings.Repeat("x", MaxNodeIDLen+1)} {
		if _, err := ParseNodeID(bad); !errors.Is(err, ErrNodeID) {
			t.Errorf("%q: %v, want ErrNodeID", bad, err)
		}
	}
}

// No host may have the name of an outside worker.
func TestHostNames(t *testing.T) {
	id := OutsideID([]byte("some public key"))
	if _, err := ParseNodeID(string(id)); err != nil || !IsOutside(id) || id != OutsideID([]byte("some public key")) || id == OutsideID(nil) {
		t.Errorf("%q is not an outside worker's id: %v", id, err)
	}
	long := strings.Repeat("a", 26)
	for n, want := range map[NodeID]bool{
		id: true, NodeID("w-" + long): true, "w-234567abcdefghijklmnopqrst": true,
		"": false, "w-": false, "w-others": false, "w-1": false, NodeID("w-" + long + "a"): false, NodeID("w-" + long[1:]): false,
		NodeID("v-" + long): false, NodeID("w-1" + long[1:]): false, NodeID("w--" + long[1:]): false, NodeID("w-" + long[1:] + "A"): false,
	} {
		if IsOutside(n) != want {
			t.Errorf("%q is outside: %t", n, !want)
		}
	}
	for _, n := range []NodeID{id, OutsideOthers} {
		if _, err := ParseHostName(string(n)); !errors.Is(err, ErrHostName) {
			t.Errorf("a host %s: %v", n, err)
		}
	}
	if _, err := ParseHostName("N_1"); !errors.Is(err, ErrNodeID) {
		t.Errorf("a host N_1: %v", err)
	}
	for _, n := range []string{"n1", "w-1", "w-other", "w-" + long[1:]} {
		if got, err := ParseHostName(n); err != nil || string(got) != n {
			t.Errorf("a host %s: %v", n, err)
		}
	}
}

func TestHashText(t *testing.T) {
	h := Hash{1, 2, 0xff}
	got, err := ParseHash(h.String())
	if err != nil || got != h {
		t.Fatalf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "00", strings.Repeat("g", 64), strings.Repeat("0", 65)} {
		if _, err := ParseHash(bad); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

func TestHLCNext(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_123)
	h := NewHLC(now, 0)
	if got := h.Next(now); got != h+1 {
		t.Errorf("same millisecond: %v", got)
	}
	if got := h.Next(now.Add(-time.Hour)); got <= h {
		t.Errorf("clock stepped back: %v is not above %v", got, h)
	}
	if got := h.Next(now.Add(time.Second)); !got.Time().Equal(now.Add(time.Second)) {
		t.Errorf("later: %v", got)
	}
}

func TestVoterConfig(t *testing.T) {
	good := VoterConfig{Epoch: 3, Term: 2, Voters: []NodeID{"a", "b", "c"}, Mode: ModeQuorum}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*VoterConfig){
		"epoch":    func(c *VoterConfig) { c.Epoch = 0 },
		"none":     func(c *VoterConfig) { c.Voters = nil },
		"unsorted": func(c *VoterConfig) { c.Voters = []NodeID{"b", "a"} },
		"repeated": func(c *VoterConfig) { c.Voters = []NodeID{"a", "a"} },
		"name":     func(c *VoterConfig) { c.Voters = []NodeID{"A"} },
		"mode":     func(c *VoterConfig) { c.Mode = ModeAuto },
		"many":     func(c *VoterConfig) { c.Voters = []NodeID{"a", "b", "c", "d", "e", "f", "g", "h"} },
	} {
		c := good
		change(&c)
		if c.Validate() == nil {
			t.Errorf("%s: accepted %+v", name, c)
		}
	}
	for n, want := range map[int]int{1: 1, 2: 2, 3: 2, 4: 3, 5: 3, 7: 4} {
		if got := (VoterConfig{Voters: make([]NodeID, n)}).Majority(); got != want {
			t.Errorf("majority of %d: %d, want %d", n, got, want)
		}
	}
	if !(VoterConfig{Term: 2, Epoch: 1}).Newer(VoterConfig{Term: 1, Epoch: 9}) {
		t.Error("a higher term does not supersede")
	}
}

func TestCheckUserName(t *testing.T) {
	for _, s := range []string{"ann", "ann.example.org", "a.b-c_d", strings.Repeat("a", MaxUserName)} {
		if err := CheckUserName(s); err != nil {
			t.Error(err)
		}
	}
	for _, s := range []string{"", "Ann", "a b", "a:b", "ann@n2", "a\n", strings.Repeat("a", MaxUserName+1)} {
		if CheckUserName(s) == nil {
			t.Errorf("%.20q is a name", s)
		}
	}
}
