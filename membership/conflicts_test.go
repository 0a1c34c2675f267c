package membership

import (
	"crypto/ed25519"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/api"
	"github.com/skein-project/skein/cluster/event"
	"github.com/skein-project/skein/coord/member"
	"github.com/skein-project/skein/forward"
)

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
	good := event.MemberConflict{Node: "n2", Why: "forked", Kept: anns[0], Other: anns[1]}
	if e, ok := evidenceOf(good); !ok || e.Node != "n2" || e.Word() != good.Why {
		t.Errorf("%+v, %t", e, ok)
	}
	n := NewConflicts(ConflictOptions{Logger: zerolog.Nop()})
	for name, change := range map[string]func(*event.MemberConflict){
		"no reason":   func(c *event.MemberConflict) { c.Why = "" },
		"own reason":  func(c *event.MemberConflict) { c.Why = "bad\nforked" },
		"nothing":     func(c *event.MemberConflict) { c.Kept = "" },
		"no record":   func(c *event.MemberConflict) { c.Other = "x" },
		"long":        func(c *event.MemberConflict) { c.Other = strings.Repeat("A", maxConflictText+1) },
		"cut":         func(c *event.MemberConflict) { c.Kept = c.Kept[:20] },
		"escape code": func(c *event.MemberConflict) { c.Kept = "\x1b[2J" + c.Kept },
	} {
		c := good
		change(&c)
		if _, err := n.Accept(t.Context(), forward.Asker{From: "n2", Self: "n1"}, c); !api.IsCode(err, api.CodeInvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range 3 * maxConflictsKept {
		about := strconv.Itoa(i)
		if n.noted(about, false) || n.noted(about, true) || !n.noted(about, false) {
			t.Fatalf("dispute %d is not new once", i)
		}
	}
	if len(n.kept) != maxConflictsKept || n.noted("0", false) {
		t.Errorf("%d disputes remembered", len(n.kept))
	}
}
