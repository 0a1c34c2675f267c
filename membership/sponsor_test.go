package membership

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/skein-project/skein/coord/join"
)

// TestOpenJoinsClosesListeners: a join server that cannot be made leaves no
// listener open, neither its own nor that of the onion service.
func TestOpenJoinsClosesListeners(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "n1")
	if err := join.Init(dir, join.InitOptions{Node: "n1", ClusterName: "lab", Network: netip.MustParsePrefix("10.86.0.0/16")}); err != nil {
		t.Fatal(err)
	}
	id, _, err := join.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	invites, err := join.OpenInvites(dir)
	if err != nil {
		t.Fatal(err)
	}
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "skein_join_connections_refused_total", Help: "Another."}))
	var lc net.ListenConfig
	onion, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := NewSponsor(SponsorOptions{
		Identity: id, StateDir: dir, Listen: netip.MustParseAddrPort("127.0.0.1:0"), Registerer: taken,
		OnionListener: func(context.Context) (net.Listener, error) { return onion, nil },
	})
	if _, err := s.openJoins(t.Context(), new(join.Sponsor), invites); err == nil {
		t.Fatal("a join server with metrics that are taken")
	}
	if err := onion.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("close the onion service's listener: %v, want it closed already", err)
	}
}
