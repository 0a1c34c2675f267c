package daemon

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/mesh"
)

// ownNetwork is a network of this machine.
func ownNetwork(t *testing.T) netip.Prefix {
	t.Helper()
	u, err := mesh.ReadUnderlay("")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range u.Addrs {
		if p.Addr().Is4() && p.Bits() <= 29 {
			return p.Masked()
		}
	}
	t.Skip("this machine has no IPv4 network")
	return netip.Prefix{}
}

// TestInitRefusesOverlap: the network is for ever, so it must be free.
func TestInitRefusesOverlap(t *testing.T) {
	taken := ownNetwork(t)
	cfg := hostConfig(t)
	cfg.Mesh.Backend = config.BackendAuto
	err := Init(cfg, InitOptions{Network: taken})
	var h *hinted
	if !errors.Is(err, mesh.ErrOverlap) || !errors.As(err, &h) || !strings.Contains(h.hint, "--network") {
		t.Errorf("init in %s: %v", taken, err)
	}
	if _, _, err := join.Load(cfg.StateDir); !errors.Is(err, join.ErrNotInitialised) {
		t.Errorf("the refused init left a cluster: %v", err)
	}
	cfg.Mesh.Backend = config.BackendNetstack // uses no routes
	if err := Init(cfg, InitOptions{Network: taken}); err != nil {
		t.Error(err)
	}
}

// TestJoinChecksFirst: what would keep the mesh from running is found before
// the sponsor is asked, and a member looks at no token.
func TestJoinChecksFirst(t *testing.T) {
	taken := ownNetwork(t)
	first := hostConfig(t)
	if err := Init(first, InitOptions{Network: taken}); err != nil {
		t.Fatal(err)
	}
	id, _, err := join.Load(first.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	invites, err := join.OpenInvites(first.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	token, err := invites.Create(id, []string{"127.0.0.1:1"}, time.Hour, 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Reveal()), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := hostConfig(t)
	cfg.Mesh.Listen, cfg.Join.Listen = netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("127.0.0.1:0")
	cfg.Mesh.Backend = config.BackendAuto
	err = enter(t.Context(), cfg, file, nil, zerolog.Nop())
	want := mesh.ErrOverlap
	if has, capErr := hasNetAdmin(); capErr == nil && !has {
		want = mesh.ErrPermission
	}
	if !errors.Is(err, want) {
		t.Errorf("join of a network in use: %v, want %v", err, want)
	}
}

// TestMemberLooksAtNoToken: the flag may stay in a unit, whatever the file is.
func TestMemberLooksAtNoToken(t *testing.T) {
	cfg := hostConfig(t)
	if err := Init(cfg, InitOptions{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, filepath.Join(t.TempDir(), "missing")} {
		if err := enter(t.Context(), cfg, name, nil, zerolog.Nop()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPublicNetwork(t *testing.T) {
	for text, want := range map[string]bool{
		"10.86.0.0/16": false, "172.31.0.0/16": false, "192.168.7.0/24": false, "100.64.0.0/10": false,
		"172.0.0.0/8": true, "8.8.8.0/24": true, "172.32.0.0/16": true,
	} {
		if got := PublicNetwork(netip.MustParsePrefix(text)); got != want {
			t.Errorf("%s: %t", text, got)
		}
	}
}
