package offline

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/skein-project/skein/config"
	"github.com/skein-project/skein/coord/join"
	"github.com/skein-project/skein/doctor"
	"github.com/skein-project/skein/internal/statetest"
	"github.com/skein-project/skein/mesh/device"
	"github.com/skein-project/skein/mesh/hostnet"
)

// ownNetwork is a network of this machine.
func ownNetwork(t *testing.T) netip.Prefix {
	t.Helper()
	u, err := hostnet.ReadUnderlay("")
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
	cfg := statetest.Config(t)
	cfg.Mesh.Backend = config.BackendAuto
	err := Init(cfg, InitOptions{Network: taken})
	var h *hinted
	if !errors.Is(err, device.ErrOverlap) || !errors.As(err, &h) || !strings.Contains(h.hint, "--network") {
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

// TestJoinIsPatient: who says how long a sponsor is asked that does not answer gets
// that time; without that, one that is not there is asked once.
func TestJoinIsPatient(t *testing.T) {
	first := statetest.Config(t)
	if err := Init(first, InitOptions{}); err != nil {
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
	for _, patience := range []time.Duration{0, 3 * time.Second} {
		cfg := statetest.Config(t)
		free, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		cfg.Mesh.Listen, cfg.Join.Listen = netip.MustParseAddrPort(free.LocalAddr().String()), netip.MustParseAddrPort("127.0.0.1:0")
		if err := free.Close(); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		err = Join(t.Context(), cfg, JoinOptions{Token: file, Patience: patience, Logger: zerolog.Nop()})
		silent, ok := errors.AsType[*join.UnansweredError](err)
		if !ok || silent.Tries > 1 != (patience > 0) || time.Since(begin) < patience {
			t.Errorf("patience %s: after %s %+v, %v", patience, time.Since(begin), silent, err)
		}
	}
}

// TestJoinChecksFirst: what would keep the mesh from running is found before
// the sponsor is asked, and a member looks at no token.
func TestJoinChecksFirst(t *testing.T) {
	taken := ownNetwork(t)
	first := statetest.Config(t)
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
	cfg := statetest.Config(t)
	cfg.Mesh.Listen, cfg.Join.Listen = netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort("127.0.0.1:0")
	cfg.Mesh.Backend = config.BackendAuto
	err = Join(t.Context(), cfg, JoinOptions{Token: file, Logger: zerolog.Nop()})
	want := device.ErrOverlap
	if errors.Is(doctor.Preflight(cfg), device.ErrPermission) {
		want = device.ErrPermission
	}
	if !errors.Is(err, want) {
		t.Errorf("join of a network in use: %v, want %v", err, want)
	}
}

// TestMemberLooksAtNoToken: the flag may stay in a unit, whatever the file is.
func TestMemberLooksAtNoToken(t *testing.T) {
	cfg := statetest.Config(t)
	if err := Init(cfg, InitOptions{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{file, filepath.Join(t.TempDir(), "missing")} {
		if err := Join(t.Context(), cfg, JoinOptions{Token: name, Logger: zerolog.Nop()}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
